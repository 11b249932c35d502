// Where the keyboard's focus goes when what had it is gone: never back to the beginning.

import assert from "node:assert/strict";
import { PASSWORD, SIZE, accessible, api, button, heading, phase, says, scene, tokenOf } from "./world.mjs";

/** Waits until what is called so has the focus. */
const at = (page, name) =>
  page.waitForFunction((name) => {
    const it = document.activeElement;
    return (it?.getAttribute("aria-label") ?? it?.textContent)?.trim() === name;
  }, name);

/** Presses Enter where the focus is, once that is what is called so. */
const enter = async (page, name) => {
  await at(page, name);
  await page.keyboard.press("Enter");
};

/** Goes to a button and presses it by keys. */
const press = async (page, name) => {
  await button(page, name).focus();
  await enter(page, name);
};

/** Watches from now on whether the focus is nowhere for longer than a moment: by pictures,
 * as a busy machine makes fewer of them. */
const watch = async (page) => {
  await page.evaluate(() => {
    globalThis.lost = 0;
    let pictures = 0;
    const look = () => {
      pictures = document.activeElement === document.body ? pictures + 1 : 0;
      globalThis.lost = Math.max(globalThis.lost, pictures);
      requestAnimationFrame(look);
    };
    look();
  });
  return async (what) => {
    const pictures = await page.evaluate(() => globalThis.lost);
    assert.ok(pictures < 90, `${what}: the focus was nowhere for ${pictures} pictures`);
    assert.notEqual(await page.evaluate(() => document.activeElement?.tagName), "BODY", what);
  };
};

/** Waits until the page has drawn what it has in mind: it leads the focus in the second
 * picture after what had it is gone, and this ends after one more. */
const drawn = (page) =>
  page.evaluate(() => {
    let left = 3;
    return new Promise((done) => {
      const next = () => (left-- === 0 ? done() : requestAnimationFrame(next));
      next();
    });
  });

const power_leads_from_one_button_to_the_next = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/vms", token, { name: "focus", ...SIZE, sshPassword: PASSWORD });
  await phase(token, "focus", "Running");
  for (const path of ["/", "/vms/focus"]) {
    await scene({ user: "ann" }, async (page) => {
      await page.goto(path);
      await button(page, "Stop focus").focus();
      const isKept = await watch(page);
      await enter(page, "Stop focus");
      await enter(page, "Stop");
      await at(page, "Start focus");
      await phase(token, "focus", "Stopped");
      await page.locator(".badge", { hasText: /^Off$/ }).first().waitFor();
      await enter(page, "Start focus");
      await at(page, "Stop focus");
      await phase(token, "focus", "Running");
      await isKept(path);
    });
  }
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/focus");
    await button(page, "Restart focus").focus();
    const isKept = await watch(page);
    await enter(page, "Restart focus");
    await enter(page, "Restart");
    await says(page, "focus is being restarted.");
    // The button goes while the machine stops, and comes again.
    await page.waitForFunction(() => /^(Stop|Restart) focus$/.test(document.activeElement?.getAttribute("aria-label") ?? ""));
    await button(page, "Restart focus").waitFor({ state: "detached" });
    await at(page, "Stop focus");
    await button(page, "Restart focus").waitFor();
    await isKept("after a restart");
  });
};

const who_has_left_or_reads_on_is_not_disturbed = async () => {
  const token = await tokenOf("ann");
  const stop = async (page) => {
    await api("POST", "/vms/focus/stop", token);
    await button(page, "Start focus").waitFor();
  };
  const start = async () => {
    await api("POST", "/vms/focus/start", token);
    await phase(token, "focus", "Running");
  };
  await scene({ user: "ann" }, async (page) => {
    await page.setViewportSize({ width: 1000, height: 300 });
    await page.goto("/vms/focus");
    // A press on what takes no focus.
    await button(page, "Stop focus").focus();
    await page.evaluate(() => document.activeElement.blur());
    await stop(page);
    await button(page, "Stop focus").waitFor({ state: "detached" });
    await drawn(page);
    assert.deepEqual(await page.evaluate(() => [document.activeElement?.tagName, window.scrollY]), ["BODY", 0]);
    await start();
    // One who has scrolled on since.
    await button(page, "Stop focus").focus();
    await page.evaluate(() => window.scrollTo(0, 400));
    await stop(page);
    await at(page, "Start focus");
    assert.equal(await page.evaluate(() => window.scrollY), 400);
    await start();
  });
};

const a_vm_that_is_deleted_leads_to_the_list = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/focus?tab=settings");
    await press(page, "Delete this VM…");
    await page.getByLabel("Type focus to confirm").fill("focus");
    await page.keyboard.press("Enter");
    await heading(page, "Virtual machines");
    await page.waitForFunction(() => document.activeElement?.closest("main") !== null);
    await page.getByRole("link", { name: "focus", exact: true }).waitFor({ state: "detached" });
    assert.notEqual(await page.evaluate(() => document.activeElement?.tagName), "BODY");
  });

const a_row_that_is_deleted_leads_to_the_next = async () => {
  const bob = await tokenOf("bob");
  for (const name of ["first", "second"]) await api("POST", "/me/tokens", bob, { name, scopes: ["account:read"] });
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    for (const [name, next] of [["first", "Delete the token second"], ["second", "New token"]]) {
      await press(page, `Delete the token ${name}`);
      await page.getByLabel(`Type ${name} to confirm`).fill(name);
      await page.keyboard.press("Enter");
      await button(page, `Delete the token ${name}`).waitFor({ state: "detached" });
      await at(page, next);
    }
  });
  const ann = await tokenOf("ann");
  await api("POST", "/admin/invites", ann, { note: "Focus" });
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/invites");
    await press(page, "Withdraw the invite for Focus");
    await page.getByRole("dialog").getByRole("button", { name: "Withdraw", exact: true }).press("Enter");
    await page.getByRole("row", { name: /Focus/ }).waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.closest("main button") !== null);
  });
};

const ending_a_sign_in_asks_and_leads_on = async () => {
  const others = [await tokenOf("bob"), await tokenOf("bob")];
  const isGood = async (token) => (await api("GET", "/auth/session", token)).signedIn;
  assert.deepEqual(await Promise.all(others.map(isGood)), [true, true]);
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    const list = page.getByRole("list", { name: "Sessions" });
    const ends = list.getByRole("button", { name: /^End the session of / });
    await ends.first().waitFor();
    const before = await ends.count();
    await ends.first().focus();
    const isKept = await watch(page);
    await page.keyboard.press("Enter");
    const question = page.getByRole("dialog", { name: /^End the session of .*\?$/ });
    await question.getByText("Whoever uses it is signed out at once").waitFor();
    await accessible(page, "the question before a session ends");
    await question.getByRole("button", { name: "Cancel" }).press("Enter");
    await question.waitFor({ state: "detached" });
    assert.equal(await ends.count(), before);
    await page.waitForFunction(() => /^End the session of /.test(document.activeElement?.getAttribute("aria-label") ?? ""));
    while ((await ends.count()) > 0) {
      const left = await ends.count();
      await ends.first().focus();
      await page.keyboard.press("Enter");
      await enter(page, "End session");
      await question.waitFor({ state: "detached" });
      await ends.nth(left - 1).waitFor({ state: "detached" });
    }
    await says(page, "The session is over.");
    await page.waitForFunction(() => document.activeElement?.closest(".section")?.querySelector("h2")?.textContent === "Sessions");
    await isKept("sessions");
  });
  for (const token of others) await assert.rejects(api("GET", "/me", token));
};

const what_a_dialog_says_next_has_the_focus = () =>
  scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await press(page, "New token");
    await page.getByLabel("Name", { exact: true }).fill("shown-once");
    await page.keyboard.press("Enter");
    await says(page, "it is shown only once");
    await page.waitForFunction(() => document.activeElement?.closest("[role=dialog]") !== null);
    await accessible(page, "a token that was made");
    await button(page, "Done").press("Enter");
    await at(page, "New token");
    await api("DELETE", "/me/tokens/shown-once", await tokenOf("bob"));
  });

const tabs_keep_the_focus = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/web");
    await page.getByRole("tab", { name: "Overview" }).focus();
    for (const tab of ["Terminal", "Screen", "Serial console", "Sessions", "Snapshots", "Settings"]) {
      await page.keyboard.press("ArrowRight");
      await page.locator("[role=tab][aria-selected=true]", { hasText: tab }).waitFor();
      await page.locator(".loading").first().waitFor({ state: "detached" });
      await at(page, tab);
    }
  });

const what_could_not_be_had_can_be_asked_for_again = () =>
  scene({ user: "bob" }, async (page) => {
    const problem = { type: "urn:kite:problem:unavailable", title: "Unavailable", status: 503, detail: "try again in a moment" };
    let isDown = true;
    await page.route("**/api/v1/me/tokens*", (route) => (isDown ? route.fulfill({ status: 503, json: problem }) : route.fallback()));
    await page.goto("/account");
    const alert = page.getByRole("alert").filter({ hasText: "Try again in a moment." });
    await alert.waitFor();
    await accessible(page, "what could not be had");
    isDown = false;
    await alert.getByRole("button", { name: "Try again" }).press("Enter");
    await says(page, "None yet. A token lets a script do");
    await page.waitForFunction(() => document.activeElement?.closest("main") !== null);
  });

export default {
  power_leads_from_one_button_to_the_next,
  who_has_left_or_reads_on_is_not_disturbed,
  a_vm_that_is_deleted_leads_to_the_list,
  a_row_that_is_deleted_leads_to_the_next,
  ending_a_sign_in_asks_and_leads_on,
  what_a_dialog_says_next_has_the_focus,
  tabs_keep_the_focus,
  what_could_not_be_had_can_be_asked_for_again,
};

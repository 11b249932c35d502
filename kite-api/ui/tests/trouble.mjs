import assert from "node:assert/strict";
import { PASSWORD, SIZE, accessible, api, button, fill, fitsWidth, heading, marked, phase, says, scene, tokenOf } from "./world.mjs";

const an_ended_session_leads_to_the_sign_in_and_back = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/web?tab=settings");
    await says(page, "Who can log in");
    await api("DELETE", "/me/sessions", await tokenOf("ann"));
    await says(page, "Your session has ended.");
    await fill(page, "Username", "ann");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "web");
    assert.match(page.url(), /\/vms\/web\?tab=settings$/);
  });

/** A new VM of which something is typed, whose owner's session then ends. */
const end_the_session_of_who_types = async (page) => {
  await page.goto("/");
  await button(page, "New VM").click();
  const dialog = page.getByRole("dialog", { name: "New virtual machine" });
  const field = (name) => dialog.locator(`[name='${name}']`);
  await field("name").fill("typed");
  await field("sshPassword").fill(PASSWORD);
  await dialog.getByText("Custom", { exact: true }).click();
  await field("cpu").fill("3");
  await button(dialog, "More options").click();
  await field("domainPrefix").fill("typed-too");
  await api("DELETE", "/me/sessions", await tokenOf("ann"));
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.waitFor();
  return { dialog, field, again };
};

const what_is_typed_when_a_session_ends_is_kept = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    const { dialog, field, again } = await end_the_session_of_who_types(page);
    await again.getByText("what you have typed is kept", { exact: false }).waitFor();
    await accessible(page, "signing in again");
    await fitsWidth(page, "signing in again");
    // One does not lose it by a key.
    await page.keyboard.press("Escape");
    assert.equal(await again.getByLabel("Username", { exact: true }).inputValue(), "ann");
    await again.getByLabel("Password", { exact: true }).fill("not the password");
    await button(again, "Sign in").click();
    await again.getByRole("alert").waitFor();
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await button(again, "Sign in").click();
    await again.waitFor({ state: "detached" });
    await dialog.waitFor();
    const typed = Object.fromEntries(
      await Promise.all(["name", "cpu", "domainPrefix", "sshPassword"].map(async (name) => [name, await field(name).inputValue()])),
    );
    assert.deepEqual(typed, { name: "typed", cpu: "3", domainPrefix: "typed-too", sshPassword: "" });
    // The page is in the new session: what is sent is done, and news come again.
    await field("name").fill("again");
    await field("domainPrefix").fill("");
    await field("cpu").fill("1");
    // Without the password that was there it is not made unasked.
    await button(dialog, "Create VM").click();
    await marked(dialog, "sshPassword");
    await dialog.getByText("Passwords are not kept: enter it again.").waitFor();
    await field("sshPassword").fill(PASSWORD);
    await button(dialog, "Create VM").click();
    await heading(page, "again");
    const token = await tokenOf("ann");
    await api("PATCH", "/vms/again", token, { powerState: "Off" });
    await button(page, "Start again").waitFor();
    await api("DELETE", "/vms/again", token);
  });

const somebody_else_begins_anew_where_a_session_has_ended = () =>
  scene({ user: "ann" }, async (page) => {
    const { dialog, again } = await end_the_session_of_who_types(page);
    await again.getByLabel("Username", { exact: true }).fill("bob");
    await again.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await button(again, "Sign in").click();
    await dialog.waitFor({ state: "detached" });
    await page.locator(".who", { hasText: "bob" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "web", exact: true }).count(), 0, "it shows what ann has");
  });

const what_is_typed_can_be_discarded_when_a_session_has_ended = () =>
  scene({ user: "ann" }, async (page) => {
    const { again } = await end_the_session_of_who_types(page);
    await button(again, "Discard what is typed").click();
    await heading(page, "Sign in");
    await says(page, "Your session has ended.");
  });

/** Forms, a field of each that is written wrong, and how it is put right. */
const WRONG = [
  ["/", "New VM", "name", "Web_1", "web-1"],
  ["/", "New VM", "sshPassword", "short", PASSWORD],
  ["/admin/users", "New user", "username", "Dora!", "dora"],
  ["/admin/offers", "New offer", "name", "Not so", "not-so"],
  ["/account", "New token", "name", "x".repeat(70), "short"],
];

const what_is_said_of_a_field_goes_as_it_is_corrected = () =>
  scene({ user: "ann" }, async (page) => {
    for (const [path, opens, name, wrong, right] of WRONG) {
      await page.goto(path);
      await button(page, opens).click();
      const dialog = page.getByRole("dialog");
      const field = dialog.locator(`[name='${name}']`);
      await field.evaluate((it) => it.removeAttribute("maxlength"));
      await field.fill(wrong);
      await dialog.locator("button[type=submit]").click();
      await marked(dialog, name);
      await field.fill(right);
      // Not sent again.
      await dialog.locator(`[name='${name}']:not([aria-invalid=true])`).waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }
    // What is thought up is right, too, though nobody types it.
    await page.goto("/");
    await button(page, "New VM").click();
    const dialog = page.getByRole("dialog");
    const password = page.locator("[name=sshPassword]");
    await password.fill("short");
    await dialog.locator("button[type=submit]").click();
    await marked(dialog, "sshPassword");
    await dialog.locator(".field", { has: password }).getByRole("button").first().click();
    await dialog.locator("[name=sshPassword]:not([aria-invalid=true])").waitFor();
    // Where it is wrong in another way, that is said.
    const vmName = page.locator("[name=name]");
    await marked(dialog, "name");
    await vmName.fill("Web_1");
    await dialog.locator(".field", { has: vmName }).locator(".error").waitFor();
    await vmName.fill("web-1");
    await dialog.locator(".field", { has: vmName }).locator(".error").waitFor({ state: "detached" });
  });

const a_lost_connection_is_told_and_recovers = () =>
  scene({ user: "ann" }, async (page, context) => {
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await context.setOffline(true);
    await button(page, "Stop web").click();
    const question = page.getByRole("dialog", { name: "Stop web?" });
    await question.getByRole("button", { name: "Stop", exact: true }).click();
    await question.getByText("The server cannot be reached.").waitFor();
    await question.getByRole("button", { name: "Cancel" }).click();
    await says(page, "No connection to the server.");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await context.setOffline(false);
    await page.getByText("No connection to the server.").waitFor({ state: "detached" });
  });

const news_come_again_after_they_were_refused = () =>
  scene({ user: "ann" }, async (page) => {
    // As when the access token has ended; the browser gives up on its own then.
    const problem = { type: "urn:kite:problem:unauthenticated", title: "Sign in", status: 401 };
    const refusal = { status: 401, contentType: "application/problem+json", body: JSON.stringify(problem) };
    await page.route("**/api/v1/events", (route) => route.fulfill(refusal), { times: 1 });
    const refused = page.waitForResponse((it) => it.url().endsWith("/events") && it.status() === 401);
    const streamed = page.waitForResponse((it) => it.url().endsWith("/events") && it.status() === 200);
    await page.goto("/");
    await refused;
    await streamed;
  });

const an_answer_that_is_late_does_not_undo_news = () =>
  scene({ user: "ann" }, async (page) => {
    let answer;
    const released = new Promise((resolve) => (answer = resolve));
    const late = page.waitForResponse((it) => it.url().includes("/api/v1/vms?"));
    const asked = new Promise((resolve) => {
      const hold = async (route) => {
        const response = await route.fetch();
        resolve();
        await released;
        await route.fulfill({ response });
      };
      void page.route("**/api/v1/vms?*", hold, { times: 1 });
    });
    // What the stream of news begins with would be answer enough.
    await page.route("**/api/v1/events*", async (route) => {
      await asked;
      await route.continue();
    });
    await page.goto("/");
    await asked;
    const token = await tokenOf("ann");
    await api("POST", "/vms", token, { name: "newer", ...SIZE, sshPassword: PASSWORD });
    const row = page.getByRole("link", { name: "newer", exact: true });
    await row.waitFor();
    // Nothing more comes of it that would mend the list.
    await phase(token, "newer", "Running");
    await page.locator("li", { has: row }).getByText("Running", { exact: true }).waitFor();
    answer();
    await (await late).finished();
    // Until what came of it is drawn.
    await page.evaluate(() => new Promise((drawn) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(drawn)), 50)));
    assert.equal(await row.count(), 1);
    await api("DELETE", "/vms/newer", token);
    await row.waitFor({ state: "detached" });
  });

const an_api_older_than_the_page_will_do = () =>
  scene({ user: "ann" }, async (page) => {
    const problem = { type: "urn:kite:problem:not-found", title: "Not found", status: 404 };
    await page.route("**/api/v1/auth/session", (route) => route.fulfill({ status: 404, json: problem }));
    await page.route("**/api/v1/events*", (route) => route.abort());
    await page.route("**/api/v1/vms?*", async (route) => {
      const answer = await (await route.fetch()).json();
      for (const vm of answer.items) delete vm.charge;
      await route.fulfill({ json: answer });
    });
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    await page.getByLabel("What you use of your quota").waitFor();
    await page.goto("/admin");
    await says(page, "VMs by state");
  });

const a_part_of_the_page_that_is_gone_is_loaded_again = () =>
  scene({ user: "ann" }, async (page, _context, faults) => {
    await page.goto("/");
    await page.getByRole("link", { name: "web", exact: true }).waitFor();
    // As after an upgrade: the page that is open knows the names of before.
    await page.route("**/assets/AccountPage-*.js", (route) => route.fulfill({ status: 404 }));
    await page.getByRole("link", { name: "Account", exact: true }).click();
    await page.getByRole("heading", { name: "This page cannot be shown" }).waitFor();
    await accessible(page, "a page that cannot be shown");
    assert.ok(faults.length > 0 && faults.every((it) => it.includes("AccountPage")), faults.join("; "));
    faults.length = 0;
    await page.unroute("**/assets/AccountPage-*.js");
    await button(page, "Load again").click();
    await heading(page, "Account");
  });

const what_is_not_there_says_so = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/no/such/page");
    await heading(page, "Nothing here");
    await page.getByRole("link", { name: "To your virtual machines" }).click();
    await heading(page, "Virtual machines");
  });

const the_keyboard_is_enough = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/");
    await button(page, "New VM").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await button(page, "New VM").focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    // The name has the focus, and Escape gives it back to the button.
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("name")), "name");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.textContent?.includes("New VM"));
  });

export default {
  an_ended_session_leads_to_the_sign_in_and_back,
  what_is_typed_when_a_session_ends_is_kept,
  somebody_else_begins_anew_where_a_session_has_ended,
  what_is_typed_can_be_discarded_when_a_session_has_ended,
  what_is_said_of_a_field_goes_as_it_is_corrected,
  a_lost_connection_is_told_and_recovers,
  news_come_again_after_they_were_refused,
  an_answer_that_is_late_does_not_undo_news,
  an_api_older_than_the_page_will_do,
  a_part_of_the_page_that_is_gone_is_loaded_again,
  what_is_not_there_says_so,
  the_keyboard_is_enough,
};

// Dialogs and lists that nothing else looks at closely: each is for everybody, in both
// themes, on a wide screen and on a phone.

import assert from "node:assert/strict";
import { PASSWORD, SIZE, accessible, api, button, fitsWidth, heading, says, scene, tokenOf } from "./world.mjs";

/** Where, what is pressed, what opens, and what is done there before it is looked at. */
const OF_ANN = [
  ["/vms/web", ["Restart web"], "Restart web?"],
  ["/vms/web?tab=settings", ["Delete this VM…"], "Delete web?"],
  ["/account", ["End all others"], "End all other sessions?"],
  ["/account", ["New token"], "New access token"],
  ["/admin/users", ["New user"], "New user"],
  ["/admin/users", ["Edit bob"], "User bob"],
  ["/admin/users", ["Edit bob", "Delete this user…"], "Delete bob?"],
  ["/admin/users", ["Edit bob", "End all access tokens…"], "End all access tokens of bob?"],
  ["/admin/users", ["Edit ann"], "User ann"],
  ["/admin/offers", ["New offer"], "New offer"],
  ["/admin/offers", ["Delete the offer spare"], "Delete spare?"],
  ["/admin/invites", ["New invite"], "New invite", (dialog) => dialog.getByText("Say how much the account may use").click()],
  ["/admin/invites", ["Withdraw the invite for Look"], "Withdraw the invite for Look"],
  ["/admin/platform", ["Add a provider"], "New sign-in provider", (dialog) => button(dialog, "Add a group").click()],
  ["/offers", ["Claim spare"], "Claim spare", (dialog) => button(dialog, "More options").click()],
  ["/", ["New VM"], "New virtual machine", (dialog) => dialog.getByText("Custom", { exact: true }).click()],
];

const every_dialog_is_for_everybody = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/admin/offers", token, { name: "spare", ...SIZE });
  const { name: invite } = await api("POST", "/admin/invites", token, { note: "Look" });
  for (const width of [1440, 390]) {
    await scene({ user: "ann", width }, async (page) => {
      for (const [path, presses, title, then] of OF_ANN) {
        const what = `${title}, ${width} px`;
        await page.goto(path);
        for (const name of presses) await button(page, name).first().click();
        const dialog = page.getByRole("dialog", { name: title });
        await dialog.waitFor();
        await then?.(dialog);
        await accessible(page, what);
        await fitsWidth(page, what);
        // It leads back to what opened it.
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
        await page.waitForFunction((name) => {
          const it = document.activeElement;
          return (it?.getAttribute("aria-label") ?? it?.textContent)?.trim() === name;
        }, presses.at(-1));
      }
    });
  }
  await api("DELETE", "/admin/offers/spare", token);
  await api("DELETE", `/admin/invites/${invite}`, token);
};

const every_list_that_opens_is_for_everybody = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    await page.goto("/vms/web");
    await button(page, "Open the menu").click();
    const menu = page.getByRole("dialog", { name: "Main" });
    await menu.getByRole("link", { name: "Account" }).waitFor();
    await accessible(page, "the menu of a phone");
    await menu.getByRole("button", { name: /Appearance/ }).click();
    await page.getByRole("option", { name: "Dark" }).waitFor();
    await accessible(page, "a list of choices");
    await page.getByRole("option", { name: "Dark" }).press("Escape");
    await menu.getByRole("link", { name: "Account" }).click();
    await heading(page, "Account");
  });

const pages_that_say_no_are_for_everybody = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    for (const [path, text] of [
      ["/no/such/page", "Nothing here"],
      ["/vms/nothing", "This VM is not there"],
      ["/users/nobody/vms/nothing", "is not there"],
      ["/vms/web?tab=screen", "Connect"],
      ["/vms/web?tab=serial", "Connect"],
      ["/users/demo/vms/hello", "belongs to demo"],
    ]) {
      await page.goto(path);
      await says(page, text);
      await accessible(page, path);
      await fitsWidth(page, path);
    }
  });

const who_may_only_look_is_told_so = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/admin/users", token, { username: "rita", password: PASSWORD, accessLevel: "ReadOnly" });
  await api("POST", "/admin/offers", token, { name: "seen", ...SIZE });
  await scene({ user: "rita" }, async (page) => {
    await page.goto("/");
    await says(page, "Your account may only look.");
    assert.equal(await button(page, "New VM").count(), 0);
    await accessible(page, "the VMs of who may only look");
    await page.goto("/offers");
    await says(page, "Your account may only look.");
    assert.ok(await button(page, "Claim seen").isDisabled());
    await accessible(page, "offers to who may only look");
  });
  await api("DELETE", "/admin/offers/seen", token);
  await api("DELETE", "/admin/users/rita", token);
};

export default {
  every_dialog_is_for_everybody,
  every_list_that_opens_is_for_everybody,
  pages_that_say_no_are_for_everybody,
  who_may_only_look_is_told_so,
};

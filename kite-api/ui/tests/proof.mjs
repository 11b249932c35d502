// What asks for a fresh proof of who one is, and for a second factor.

import assert from "node:assert/strict";
import { codeOf } from "./account.mjs";
import { PASSWORD, accessible, ageProofs, api, button, fill, fitsWidth, heading, kubernetes, marked, says, scene, tokenOf } from "./world.mjs";

const asked = (page) => page.getByRole("dialog", { name: "Show that it is you" });

/** Another account for what changes it. */
async function somebody(name) {
  const root = await tokenOf("ann");
  await api("POST", "/admin/users", root, { username: name, password: PASSWORD });
}

const what_was_being_done_goes_on_once_it_is_proved = async () => {
  await somebody("pia");
  for (const width of [1440, 390]) {
    await scene({ user: "pia", width }, async (page) => {
      await page.goto("/account");
      await heading(page, "Account");
      await ageProofs("pia");
      await button(page, "New token").click();
      const name = `script-${width}`;
      await fill(page, "Name", name);
      await page.getByText("create, change and delete VMs").click();
      await button(page, "Create token").click();
      await asked(page).waitFor();
      await accessible(page, `the question who one is, ${width} px`);
      await fitsWidth(page, "the question who one is");
      // Who does not show it has done nothing, and lost nothing.
      await asked(page).getByRole("button", { name: "Cancel" }).click();
      await asked(page).waitFor({ state: "detached" });
      await says(page, "Nothing was done");
      assert.equal(await page.getByLabel("Name", { exact: true }).inputValue(), name);

      await button(page, "Create token").click();
      await asked(page).getByLabel("Password", { exact: true }).fill("not it, surely");
      await asked(page).getByRole("button", { name: "Go on" }).click();
      await marked(asked(page), "password");
      await asked(page).getByLabel("Password", { exact: true }).fill(PASSWORD);
      await asked(page).getByRole("button", { name: "Go on" }).click();
      await says(page, "it is shown only once");
      await button(page, "Done").click();
      await says(page, name);
      // For ten minutes nothing asks again.
      await fill(page, "Email (optional)", `pia${width}@example.org`);
      await button(page, "Save").click();
      await says(page, "Saved.");
      assert.equal(await asked(page).count(), 0);
    });
  }
};

const keys_that_came_meanwhile_are_shown_with_another_password = () =>
  scene({ user: "pia" }, async (page) => {
    const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg intruder";
    await page.goto("/account");
    await fill(page, "SSH public keys", key);
    await button(page, "Save").click();
    await says(page, "Saved.");
    await page.getByRole("list", { name: "Your keys" }).getByText("intruder").waitFor();
    await fill(page, "Current password", PASSWORD);
    await fill(page, "New password", "password1");
    await button(page, "Change password").click();
    await marked(page, "newPassword");
    await says(page, "Is one that many people have: choose another.");
    await fill(page, "New password", `${PASSWORD} of pi`);
    await button(page, "Change password").click();
    await says(page, "all access tokens are over");
    await says(page, "None yet. A token lets a script");
    const since = page.getByRole("list", { name: "Keys since the password before" });
    await since.getByText("intruder").waitFor();
    await accessible(page, "keys since the password before");
    await button(page, "Take off the key intruder").click();
    await says(page, "The key does not open your VMs any more.");
    await since.waitFor({ state: "detached" });
    await page.getByRole("list", { name: "Your keys" }).waitFor({ state: "detached" });
  });

const whom_a_second_factor_is_asked_of_sets_one_up_to_go_on = async () => {
  await somebody("quin");
  const settle = (requireSecondFactor) => kubernetes("PATCH", "/kiteplatforms/default", { spec: { requireSecondFactor } });
  for (const width of [1440, 390]) {
    await scene({ user: "quin", width }, async (page) => {
      await page.goto("/");
      await heading(page, "Virtual machines");
      await settle("Everybody");
      try {
        // Also in the midst of it.
        await page.goto("/account");
        await heading(page, "A second factor is needed");
        await says(page, "You are signed in as quin.");
        await accessible(page, `a second factor is needed, ${width} px`);
        await fitsWidth(page, "a second factor is needed");
        if (width === 1440) return;
        await button(page, "Set up").click();
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
        await dialog.getByRole("button", { name: "Go on" }).click();
        await dialog.getByRole("img", { name: "QR code with the secret" }).waitFor();
        const secret = await dialog.locator("code").innerText();
        await fill(page, "Code", codeOf(secret));
        await button(page, "Turn on").click();
        // They are shown once, so nothing leads away from them.
        await says(page, "Keep these recovery codes");
        await new Promise((done) => setTimeout(done, 3000));
        await says(page, "Keep these recovery codes");
        await button(page, "Done").click();
        await says(page, "The second factor is set up.");
        await button(page, "Go on").click();
        await heading(page, "Account");
      } finally {
        await settle("Nobody");
      }
    });
  }
};

export default {
  what_was_being_done_goes_on_once_it_is_proved,
  keys_that_came_meanwhile_are_shown_with_another_password,
  whom_a_second_factor_is_asked_of_sets_one_up_to_go_on,
};

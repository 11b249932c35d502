import { PASSWORD, button, fill, says, scene, tokenOf } from "./world.mjs";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg bob";

const somebody_looks_after_their_account = async () => {
  await tokenOf("bob");
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await fill(page, "Email (optional)", "no address");
    await fill(page, "SSH public keys", KEY);
    await button(page, "Save").click();
    await page.locator("input[name=email][aria-invalid=true]").waitFor();
    await fill(page, "Email (optional)", "bob@example.org");
    await button(page, "Save").click();
    await says(page, "Saved.");
    await page.reload();
    await page.locator("textarea", { hasText: "ssh-ed25519" }).waitFor();

    await button(page, "End all others").click();
    await says(page, "All other sessions are over.");
    await button(page, "End all others").waitFor({ state: "detached" });

    await fill(page, "Current password", "not it, surely");
    await fill(page, "New password", `${PASSWORD} two`);
    await button(page, "Change password").click();
    await page.getByRole("alert").waitFor();
    await fill(page, "Current password", PASSWORD);
    await button(page, "Change password").click();
    await says(page, "The password is changed");
    await fill(page, "Current password", `${PASSWORD} two`);
    await fill(page, "New password", PASSWORD);
    await button(page, "Change password").click();
    await page.getByText("The password is changed").nth(1).waitFor();
  });
};

export default {
  somebody_looks_after_their_account,
};

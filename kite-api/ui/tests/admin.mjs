import { PASSWORD, button, heading, says, scene } from "./world.mjs";

const an_administrator_looks_after_users = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/users");
    await button(page, "New user").click();
    let dialog = page.getByRole("dialog");
    await dialog.getByLabel("Username", { exact: true }).fill("carl");
    await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await dialog.getByRole("button", { name: "Create user" }).click();
    await says(page, "carl can sign in now.");

    await button(page, "Edit carl").click();
    dialog = page.getByRole("dialog", { name: "User carl" });
    await dialog.getByRole("button", { name: /Access level/ }).click();
    await page.getByRole("option", { name: "Manager" }).click();
    await dialog.getByLabel("VMs", { exact: true }).fill("7");
    await dialog.getByRole("button", { name: "Save" }).click();
    await says(page, "Saved.");
    await page.getByRole("row", { name: /carl/ }).getByText("Manager").waitFor();
    await page.getByRole("row", { name: /carl/ }).getByText("0 of 7").waitFor();

    await button(page, "Edit carl").click();
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await dialog.getByRole("button", { name: "Let in again" }).waitFor();
    await dialog.getByRole("button", { name: "Delete this user…" }).click();
    const confirm = page.getByRole("dialog", { name: "Delete carl?" });
    await confirm.getByLabel("Type carl to confirm").fill("carl");
    await confirm.getByRole("button", { name: "Delete user and VMs" }).click();
    await says(page, "carl is being deleted.");
    await page.getByRole("row", { name: /carl/ }).waitFor({ state: "detached" });
  });

const an_administrator_sees_everything = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin");
    await heading(page, "Overview");
    await says(page, "VMs by state");
    await page.goto("/admin/vms");
    await page.getByRole("link", { name: "hello" }).waitFor();
    await page.getByRole("searchbox").fill("nothing like it");
    await says(page, "Nothing is called");
    await page.getByRole("searchbox").fill("demo");
    await page.getByRole("link", { name: "hello" }).click();
    await heading(page, "hello");
    await says(page, "belongs to demo");
    await page.goto("/admin/images");
    await says(page, "Debian 12");
    await page.goto("/admin/platform");
    await heading(page, "Platform");
  });

export default {
  an_administrator_looks_after_users,
  an_administrator_sees_everything,
};

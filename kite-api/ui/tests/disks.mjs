// Snapshots, restores, schedules and volumes.

import assert from "node:assert/strict";
import { SIZE, accessible, api, button, fill, fitsWidth, heading, marked, phase, says, scene, tokenOf } from "./world.mjs";

const VM = "disks";
const TAB = `/vms/${VM}?tab=snapshots`;

const row = (page, table, name) => page.getByRole("table", { name: table }).getByRole("row", { name });
const section = (page, title) => page.locator("section", { has: page.getByRole("heading", { name: title, exact: true }) });

const a_snapshot_is_taken_and_kept = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/vms", token, { name: VM, ...SIZE });
  await phase(token, VM, "Running");
  await scene({ user: "ann" }, async (page) => {
    const followed = page.waitForResponse((it) => it.url().endsWith("/events?disks=own"));
    await page.goto(TAB);
    await says(page, "There is no snapshot of this VM yet.");
    assert.equal((await followed).status(), 200);
    await button(page, "Take a snapshot").click();
    const dialog = page.getByRole("dialog", { name: `Take a snapshot of ${VM}` });
    await accessible(page, "the dialog that takes a snapshot");
    // A name is there already, by the reader's clock.
    assert.match(await dialog.getByLabel("Name", { exact: true }).inputValue(), new RegExp(`^${VM}-\\d{8}-\\d{4}$`));
    await dialog.getByLabel("Name", { exact: true }).fill("Not a name");
    await dialog.getByRole("button", { name: "Take a snapshot" }).click();
    await marked(dialog, "name");
    await dialog.getByLabel("Name", { exact: true }).fill("first");
    await dialog.getByLabel("Description").fill("before the update");
    await dialog.getByRole("button", { name: "Take a snapshot" }).click();
    await says(page, "first is being taken.");
    // That it is ready, the page hears.
    const first = row(page, "Snapshots", /^first/);
    await first.getByText("Ready", { exact: true }).waitFor();
    await first.getByText("file systems at rest").waitFor();
    await accessible(page, "the snapshots of a VM");

    await button(page, "Edit first").click();
    await page.getByRole("dialog").locator(".switch").click();
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await first.getByText("protected").waitFor();
    await button(page, "Delete first").waitFor({ state: "detached" });
    await button(page, "Edit first").click();
    await page.getByRole("dialog").locator(".switch").click();
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await button(page, "Delete first").waitFor();
  });
};

const a_vm_is_restored_and_has_its_former_disk_back = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto(TAB);
    await button(page, "Restore from first").click();
    const dialog = page.getByRole("dialog", { name: `Restore ${VM} from first?` });
    await dialog.getByText("What was written to it since is not on it any more.").waitFor();
    await accessible(page, "the question before a restore");
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await says(page, `${VM} is being restored.`);
    await says(page, "The disk was restored.");
    await button(page, `Put back ${VM}-disk`).click();
    await page.getByRole("dialog").getByRole("button", { name: "Put back", exact: true }).click();
    await button(page, `Put back ${VM}-disk-2`).waitFor();
  });

const a_schedule_is_set_and_taken_away = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto(TAB);
    const form = section(page, "Schedule");
    const choose = async (text) => {
      await form.getByRole("button", { name: /How often/ }).click();
      await page.getByRole("option", { name: text }).click();
    };
    await choose("By a pattern of one's own");
    await form.getByLabel("Pattern", { exact: true }).fill("0 0 31 2 *");
    await form.getByRole("button", { name: "Save" }).click();
    await marked(form, "snapshots.schedule");
    await form.getByText("never comes").waitFor();
    await choose("Each night at 3:30");
    await form.getByLabel("Time zone").fill("Europe/Rome");
    await form.getByLabel("How many stay").fill("3");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByText("The next one is taken").waitFor();
    await accessible(page, "a schedule of snapshots");
    const token = await tokenOf("ann");
    const { snapshots } = await api("GET", `/vms/${VM}`, token);
    const { schedule, timeZone, keep } = snapshots;
    assert.deepEqual({ schedule, timeZone, keep }, { schedule: "30 3 * * *", timeZone: "Europe/Rome", keep: 3 });
    await choose("Never by itself");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByText("The next one is taken").waitFor({ state: "detached" });
    assert.equal((await api("GET", `/vms/${VM}`, token)).snapshots, undefined);
  });

const a_vm_is_made_of_a_snapshot = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    await page.goto("/disks");
    await heading(page, "Disks");
    await button(page, "New VM from first").click();
    const dialog = page.getByRole("dialog", { name: "A VM from first" });
    await fitsWidth(page, "the dialog that makes a VM of a snapshot");
    await dialog.getByLabel("Name", { exact: true }).fill("copy");
    await dialog.getByLabel("Disk", { exact: true }).fill("5Gi");
    await dialog.getByRole("button", { name: "Create VM" }).click();
    await marked(dialog, "disk");
    await dialog.getByLabel("Disk", { exact: true }).fill("10Gi");
    await dialog.getByRole("button", { name: "Create VM" }).click();
    await heading(page, "copy");
    assert.equal((await api("GET", "/vms/copy", await tokenOf("ann"))).fromSnapshot, "first");
  });

const a_volume_is_made_and_a_vm_has_it = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/disks");
    await button(page, "New volume").click();
    await accessible(page, "the dialog that makes a volume");
    await fill(page, "Name", "data");
    await fill(page, "Disk", "lots");
    await button(page, "Create volume").click();
    await marked(page, "size");
    await fill(page, "Disk", "2Gi");
    await button(page, "Create volume").click();
    await row(page, "Volumes", /^data/).getByText("Free").waitFor();

    await page.goto(`/vms/${VM}?tab=settings`);
    const form = section(page, "Volumes");
    await form.getByRole("button", { name: "Add a volume" }).click();
    await form.getByLabel("Path", { exact: true }).fill("/etc");
    await form.getByRole("button", { name: "Save" }).click();
    await marked(form, "volumes[0].path");
    await form.getByLabel("Path", { exact: true }).fill("/srv/data");
    await form.getByRole("button", { name: "Save" }).click();
    await says(page, "Saved.");
    await accessible(page, "the volumes of a VM");
    // What a VM is to have is not deleted.
    await page.goto("/disks");
    await row(page, "Volumes", /^data/).getByRole("link", { name: VM }).waitFor();
    await button(page, "Edit data").waitFor();
    await button(page, "Delete data").waitFor({ state: "detached" });

    await page.goto(`/vms/${VM}?tab=settings`);
    await button(page, "Take data away").click();
    await form.getByRole("button", { name: "Save" }).click();
    await says(page, "Saved.");
    await page.goto("/disks");
    await button(page, "Delete data").click();
    await page.getByRole("dialog").getByRole("textbox").fill("data");
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await says(page, "You have no volumes.");
  });

const volumes_of_all_accounts_are_seen = async () => {
  const bob = await tokenOf("bob");
  await api("POST", "/volumes", bob, { name: "photos", size: "2Gi" });
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/disks");
    await button(page, "Edit photos").click();
    await page.getByRole("dialog").locator(".switch").click();
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await row(page, "Volumes", /^photos/).getByText("outlives the account").waitFor();
  });
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/volumes");
    await row(page, "All volumes", /^photos/).getByText("outlives the account").waitFor();
    await accessible(page, "all volumes");
    await button(page, "Edit photos").click();
    await page.getByRole("dialog").locator(".switch").click();
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await row(page, "All volumes", /^photos/).getByText("outlives the account").waitFor({ state: "detached" });
    await button(page, "Delete photos").click();
    await page.getByRole("dialog").getByRole("textbox").fill("photos");
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await row(page, "All volumes", /^photos/).waitFor({ state: "detached" });
  });
};

const what_was_made_goes = async () => {
  const token = await tokenOf("ann");
  for (const name of ["copy", VM]) await api("DELETE", `/vms/${name}`, token);
};

export default {
  a_snapshot_is_taken_and_kept,
  a_vm_is_restored_and_has_its_former_disk_back,
  a_schedule_is_set_and_taken_away,
  a_vm_is_made_of_a_snapshot,
  a_volume_is_made_and_a_vm_has_it,
  volumes_of_all_accounts_are_seen,
  what_was_made_goes,
};

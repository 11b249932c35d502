import assert from "node:assert/strict";
import { PASSWORD, accessible, api, button, confirm, fill, focused, heading, marked, says, scene, tokenOf } from "./world.mjs";

const a_vm_is_created_and_runs = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/");
    await button(page, "New VM").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Debian 12").click();
    await accessible(page, "the dialog that creates a VM");
    // All that is missing is said at once, and the first of it has the focus.
    const create = dialog.getByRole("button", { name: "Create VM" });
    await create.click();
    await dialog.getByText("Fill this in.").waitFor();
    await marked(dialog, "name");
    await focused(page, "name");
    // So is what is wrong, whoever finds it, also where it is folded away.
    await dialog.getByText("Custom", { exact: true }).click();
    await dialog.getByLabel("Memory", { exact: true }).fill("much");
    await dialog.getByLabel("Name", { exact: true }).fill("Not a name");
    await button(dialog, "More options").click();
    await dialog.getByLabel("Switch off when unused for").fill("a while");
    await button(dialog, "More options").click();
    await dialog.getByLabel("Switch off when unused for").waitFor({ state: "hidden" });
    await create.click();
    for (const name of ["name", "memory", "idleTimeout"]) await marked(dialog, name);
    // It can be folded away again, and what is wrong shows it the next time, too.
    await button(dialog, "More options").click();
    await dialog.getByLabel("Switch off when unused for").waitFor({ state: "hidden" });
    await create.click();
    await dialog.getByLabel("Switch off when unused for").waitFor();
    await accessible(page, "the dialog that says what is wrong");
    await dialog.getByLabel("Switch off when unused for").fill("");
    await dialog.getByText("Medium", { exact: true }).click();
    await dialog.getByRole("button", { name: "Generate" }).click();
    await create.click();
    await dialog.getByLabel("Switch off when unused for").and(dialog.locator("[aria-invalid=true]")).waitFor({ state: "detached" });
    await marked(dialog, "name");
    await dialog.getByLabel("Name", { exact: true }).fill("web");
    await dialog.getByRole("button", { name: "Create VM" }).click();
    await heading(page, "web");
    await page.getByText("Running", { exact: true }).first().waitFor();
    await page.getByText(/^ssh .*web-.*@/).waitFor();
    await button(page, "Copy the ssh command of web").click();
    await says(page, "Copied.");
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^ssh .*web-/);
    await says(page, "Ready to use");
    await says(page, "It can be reached now.");
  });

const a_vm_is_stopped_started_and_changed = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/web");
    // A question can be left, and is answered by the key that asked it.
    const posts = [];
    page.on("request", (request) => request.method() === "POST" && posts.push(new URL(request.url()).pathname));
    for (const [name, title] of [["Stop web", "Stop web?"], ["Restart web", "Restart web?"]]) {
      await button(page, name).click();
      const question = page.getByRole("dialog", { name: title });
      await question.getByText("what runs in it ends, and so do the sessions in it").waitFor();
      await accessible(page, title);
      await page.keyboard.press("Escape");
      await question.waitFor({ state: "detached" });
    }
    assert.deepEqual(posts, []);
    await button(page, "Restart web").focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.textContent === "Restart");
    await page.keyboard.press("Enter");
    await says(page, "web is being restarted.");
    assert.deepEqual(posts, ["/api/v1/vms/web/restart"]);
    await button(page, "Stop web").click();
    await confirm(page, "Stop web?", "Stop");
    await page.getByText("Off", { exact: true }).first().waitFor();
    await button(page, "Start web").click();
    await page.getByText("Running", { exact: true }).first().waitFor();
    await page.getByRole("tab", { name: "Settings" }).click();
    const disk = page.getByLabel("Disk", { exact: true });
    await disk.fill("1Gi");
    await button(page, "Save").first().click();
    await page.locator("input[name=disk][aria-invalid=true]").waitFor();
    await disk.fill("30Gi");
    await fill(page, "Switch off when unused for", "2h");
    await button(page, "Save").first().click();
    await says(page, "Saved.");
    await page.getByRole("tab", { name: "Overview" }).click();
    await says(page, "30 GiB disk");
    await says(page, "2 hours");
  });

/** Presses keys in a field that gets a value only once all of it is typed. */
const type = async (page, name, keys) => {
  await page.locator(`input[name=${name}]`).focus();
  await page.keyboard.type(keys);
};

const half_of_a_date_is_not_sent_as_none = () =>
  scene({ user: "ann" }, async (page) => {
    const token = await tokenOf("ann");
    const expiresAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
    await api("PATCH", "/vms/web", token, { expiresAt });
    const before = await api("GET", "/vms/web", token);
    const edits = [];
    page.on("request", (request) => request.method() === "PATCH" && edits.push(request.url()));
    await page.goto("/vms/web?tab=settings");
    const end = page.locator("input[name=expiresAt]");
    await end.focus();
    await page.keyboard.press("Delete");
    assert.deepEqual(await end.evaluate(({ value, validity }) => [value, validity.badInput]), ["", true]);
    await button(page, "Save").first().click();
    await marked(page, "expiresAt");
    await says(page, /^Write the day and the time, such as 12\/01\/[0-9]{4}/);
    assert.equal(await page.getByRole("alert").count(), 0);
    assert.deepEqual(edits, []);
    // Nor is a number that is none.
    await end.fill("");
    await page.locator("input[name=cpu]").fill("");
    await type(page, "cpu", "e");
    await button(page, "Save").first().click();
    await marked(page, "cpu");
    assert.deepEqual(edits, []);
    assert.equal((await api("GET", "/vms/web", token)).expiresAt, before.expiresAt);
    // What is emptied on purpose is.
    await page.locator("input[name=cpu]").fill(String(before.cpu));
    await button(page, "Save").first().click();
    await says(page, "Saved.");
    assert.equal(edits.length, 1);
    assert.equal((await api("GET", "/vms/web", token)).expiresAt, undefined);
  });

/** The VM web as if it were in this state, for what passes too fast to be looked at. */
const pretend = async (page, status) => {
  await page.route("**/api/v1/events*", (route) => route.abort());
  await page.route("**/api/v1/vms?*", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.items = answer.items.map((vm) => (vm.name === "web" ? { ...vm, status } : vm));
    await route.fulfill({ json: answer });
  });
};

/** A VM whose disk is being made, for so many minutes. */
const inTheMaking = (minutes) => {
  const lastTransitionTime = new Date(Date.now() - minutes * 60_000).toISOString();
  const condition = (type, status, reason, message) => ({ type, status, reason, message, lastTransitionTime });
  const cloning = ["False", "Cloning", "the disk is being cloned from debian-12"];
  return {
    phase: "Provisioning",
    upToDate: true,
    conditions: [
      condition("Ready", ...cloning),
      condition("Reserved", "True", "Reserved", "its names belong to the VM"),
      condition("DiskReady", ...cloning),
      condition("VirtualMachineReady", "False", "DiskNotReady", "waiting for the disk"),
    ],
  };
};

const what_is_under_way_is_no_warning = () =>
  scene({ user: "ann" }, async (page) => {
    await pretend(page, inTheMaking(0));
    await page.goto("/vms/web");
    await says(page, "Not yet (Making the disk).");
    await says(page, "The ssh command appears here when it is ready.");
    const steps = page.locator(".timeline li");
    assert.deepEqual(
      await steps.evaluateAll((all) => all.map((it) => it.dataset.tone).sort()),
      ["busy", "busy", "busy", "good"],
    );
    assert.equal(await page.locator(".remedy").count(), 0);
    await accessible(page, "a VM in the making");
  });

const what_hangs_is_one = () =>
  scene({ user: "ann" }, async (page) => {
    await page.clock.install();
    await pretend(page, inTheMaking(60));
    await page.goto("/vms/web");
    // For how long, only the page can tell.
    await says(page, "Not yet (Making the disk).");
    for (let minute = 0; minute <= 16; minute += 1) await page.clock.fastForward(60_000);
    await says(page, "It cannot be reached now (Needs attention).");
    await page.locator(".badge", { hasText: "Needs attention" }).waitFor();
    await says(page, "Ask an administrator to look at the storage.");
    // What waits for the disk has nothing wrong with it.
    assert.equal(await page.locator(".timeline li[data-tone=warn]").count(), 2);
  });

const why_there_is_no_ssh_command_is_told = async () => {
  const gateway = { hostKeys: [], port: 22 };
  for (const [config, reserved, text] of [
    [{ gateway: null }, "Reserving", "this platform has no SSH gateway"],
    [{ gateway }, "Reserving", "The ssh command appears here when it is ready."],
    [{ gateway }, "DomainTaken", "The SSH gateway has no address yet."],
    [{ gateway }, "SshIdTaken", "There is no ssh command without a login name"],
    [{ gateway }, "True", "The SSH gateway has no address yet."],
    // An API that is older than the page tells no host keys.
    [{ gateway: { port: 22 } }, "True", "The SSH gateway has no address yet."],
  ]) {
    await scene({ user: "ann" }, async (page) => {
      const status = inTheMaking(0);
      const conditions = status.conditions.map((it) =>
        it.type === "Reserved" && reserved !== "True" ? { ...it, status: "False", reason: reserved } : it,
      );
      await pretend(page, { ...status, conditions });
      await page.route("**/api/v1/config", async (route) => {
        const { gateway, ...rest } = { ...(await (await route.fetch()).json()), ...config };
        await route.fulfill({ json: gateway === null ? rest : { ...rest, gateway } });
      });
      await page.goto("/vms/web");
      await says(page, text);
    });
  }
};

const tabs_are_one_row_on_a_phone = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    await page.goto("/vms/web?tab=settings");
    const boxOf = (tab) => page.getByRole("tab", { name: tab }).boundingBox();
    await page.getByRole("tab", { name: "Overview" }).waitFor();
    const rows = new Set();
    for (const tab of ["Overview", "Terminal", "Screen", "Serial console", "Sessions", "Settings"]) {
      rows.add((await boxOf(tab)).y);
    }
    assert.equal(rows.size, 1);
    // The one that is chosen is in sight, however one came to it.
    for (const tab of ["Settings", "Overview", "Sessions"]) {
      await page.getByRole("tab", { name: tab }).click();
      const isInSight = async () => {
        const { x, width } = await boxOf(tab);
        return x >= 0 && x + width <= 390;
      };
      while (!(await isInSight())) await page.waitForTimeout(50);
    }
  });

const what_is_said_covers_no_button_on_a_phone = () =>
  scene({ user: "ann", width: 390 }, async (page) => {
    await page.goto("/vms/web");
    const copy = button(page, "Copy the ssh command of web");
    for (let time = 0; time < 3; time += 1) await copy.click();
    const toast = page.getByRole("log").locator(".toast:visible");
    await toast.getByText("Copied.").waitFor();
    assert.equal(await toast.count(), 1);
    const bar = await page.locator(".topbar").boundingBox();
    const { y, height } = await toast.boundingBox();
    assert.ok(y + height <= bar.y + bar.height, `${y} to ${y + height}`);
    await toast.getByRole("button", { name: "Close" }).click();
    await toast.waitFor({ state: "detached" });
    // A word of the command is on one line.
    const words = page.locator(".copy code").first().locator("> span");
    const heights = await words.evaluateAll((all) => all.map((word) => word.getBoundingClientRect().height));
    assert.ok(Math.max(...heights) < 1.5 * Math.min(...heights), String(heights));
  });

const what_is_above_the_quota_is_said_before_and_after = () =>
  scene({ user: "bob" }, async (page) => {
    await page.goto("/");
    await button(page, "Create your first VM").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Custom", { exact: true }).click();
    await dialog.getByLabel("CPUs", { exact: true }).fill("9");
    await dialog.getByLabel("Name", { exact: true }).fill("huge");
    await dialog.getByRole("button", { name: "Generate" }).click();
    await dialog.getByRole("button", { name: "Create VM" }).click();
    // At the field that is too large, which has the focus.
    await dialog.getByText("Is more CPUs than is left of the quota: at most 8 of 8.").waitFor();
    await marked(dialog, "cpu");
    await focused(page, "cpu");
    assert.equal(await dialog.locator("[name=memory][aria-invalid=true]").count(), 0);
    // What is said of a size that was chosen stands there.
    const refusal = {
      type: "urn:kite:problem:quota-exceeded",
      title: "Quota exceeded",
      status: 403,
      detail: "too much",
      errors: [{ field: "disk", message: "is more disk than is left of the quota: at most 1Gi of 200Gi" }],
    };
    const refuse = (route) =>
      route.request().method() === "POST" ? route.fulfill({ status: 403, json: refusal }) : route.fallback();
    await page.route("**/api/v1/vms", refuse);
    await dialog.getByText("Medium", { exact: true }).click();
    await dialog.getByRole("button", { name: "Create VM" }).click();
    await dialog.getByText("at most 1Gi of 200Gi").waitFor();
    await focused(page, "size");
    // What is said of no field is seen, too, however far down one is.
    refusal.errors = [];
    await page.setViewportSize({ width: 1440, height: 400 });
    await dialog.getByRole("button", { name: "Create VM" }).click();
    const notice = dialog.getByRole("alert").getByText("Too much.");
    await notice.waitFor();
    await page.waitForFunction(() => document.activeElement?.className === "form-notice");
    const { y, height } = await notice.boundingBox();
    assert.ok(y >= 0 && y + height <= 400, `${y} to ${y + height}`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

const two_users_cannot_see_each_other = async () => {
  await api("POST", "/vms", await tokenOf("bob"), {
    name: "secret",
    cpu: 1,
    memory: "1Gi",
    disk: "10Gi",
    image: "debian-12",
    sshPassword: PASSWORD,
  });
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/");
    await page.getByRole("link", { name: "secret", exact: true }).waitFor();
    assert.equal(await page.getByText("web", { exact: true }).count(), 0);
    assert.equal(await page.getByText("Administration").count(), 0);
    await page.goto("/vms/web");
    await says(page, "This VM is not there");
    // What is there and what is not is refused alike.
    for (const path of ["/users/ann/vms/web", "/users/ann/vms/nothing", "/users/nobody/vms/web"]) {
      await page.goto(path);
      const alert = page.getByRole("main").getByRole("alert");
      await alert.waitFor();
      const refusal = "You may not see the VM (another account) with access level User: ask an administrator.";
      assert.equal(await alert.innerText(), refusal);
      assert.equal(await page.getByRole("main").innerText(), refusal);
    }
    await page.goto("/admin/users");
    await says(page, "Only administrators can see this page.");
  });
};

const news_come_without_reloading = () =>
  scene({ user: "bob" }, async (page) => {
    await page.goto("/");
    await page.getByRole("link", { name: "secret", exact: true }).waitFor();
    await api("POST", "/vms/secret/stop", await tokenOf("bob"));
    await page.getByText("Off", { exact: true }).waitFor();
  });

const an_offer_is_made_and_claimed = async () => {
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/offers");
    await button(page, "New offer").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("gift");
    await dialog.getByLabel("Lifetime").fill("168h");
    await dialog.getByRole("button", { name: "Create offer" }).click();
    await says(page, "gift can be claimed.");
    await page.getByRole("rowheader", { name: "gift" }).waitFor();
  });
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/offers");
    await says(page, "Lasts 7 days once claimed.");
    await button(page, "Claim gift").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("present");
    await dialog.getByRole("button", { name: "Generate" }).click();
    await dialog.getByRole("button", { name: "Claim" }).click();
    await heading(page, "present");
    await page.getByText("Running", { exact: true }).first().waitFor();
  });
};

const a_vm_is_deleted_once_its_name_is_typed = () =>
  scene({ user: "bob" }, async (page) => {
    await page.goto("/vms/secret?tab=settings");
    await button(page, "Delete this VM…").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Type secret to confirm").fill("something");
    await dialog.getByRole("button", { name: "Delete VM and disk" }).click();
    await dialog.getByText("That is not secret").waitFor();
    await dialog.getByLabel("Type secret to confirm").fill("secret");
    await dialog.getByRole("button", { name: "Delete VM and disk" }).click();
    await says(page, "secret is being deleted.");
    await heading(page, "Virtual machines");
    await page.getByRole("link", { name: "secret", exact: true }).waitFor({ state: "detached" });
  });

export default {
  a_vm_is_created_and_runs,
  what_is_under_way_is_no_warning,
  what_hangs_is_one,
  why_there_is_no_ssh_command_is_told,
  tabs_are_one_row_on_a_phone,
  what_is_said_covers_no_button_on_a_phone,
  a_vm_is_stopped_started_and_changed,
  half_of_a_date_is_not_sent_as_none,
  what_is_above_the_quota_is_said_before_and_after,
  two_users_cannot_see_each_other,
  news_come_without_reloading,
  an_offer_is_made_and_claimed,
  a_vm_is_deleted_once_its_name_is_typed,
};

// How long a VM lasts, and what is said where it is kept off or opens to nobody.

import assert from "node:assert/strict";
import { PASSWORD, SIZE, accessible, api, button, fill, fitsWidth, focused, heading, kubernetes, marked, says, scene, tokenOf } from "./world.mjs";

const DAY = 86_400_000;

/** What `<input type="datetime-local">` has for a moment, by the clock of this machine,
 * which is the browser's. */
const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

/** Whatever the page sends but questions. */
const edits = (page) => {
  const sent = [];
  page.on("request", (request) => request.method() !== "GET" && sent.push(`${request.method()} ${request.url()}`));
  return sent;
};

const an_end_that_is_over_is_refused_wherever_there_is_one = () =>
  scene({ user: "ann" }, async (page) => {
    const token = await tokenOf("ann");
    const sent = edits(page);
    const refused = async (scope, submit) => {
      await scope.locator("input[name=expiresAt]").fill(local(Date.now() - DAY));
      await scope.getByRole("button", { name: submit, exact: true }).first().click();
      await marked(scope, "expiresAt");
      await scope.getByText("Write a time in the future.").waitFor();
      await focused(page, "expiresAt");
      assert.deepEqual(sent, []);
    };
    await page.goto("/vms/web?tab=settings");
    await refused(page, "Save");
    assert.equal((await api("GET", "/vms/web", token)).expiresAt, undefined);
    for (const [path, open, submit, before] of [
      ["/", "New VM", "Create VM", async (dialog) => {
        await dialog.getByLabel("Name", { exact: true }).fill("short");
        await button(dialog, "More options").click();
      }],
      ["/account", "New token", "Create token", (dialog) => dialog.getByLabel("Name", { exact: true }).fill("short")],
      ["/admin/offers", "New offer", "Create offer", (dialog) => dialog.getByLabel("Name", { exact: true }).fill("short")],
      ["/admin/invites", "New invite", "Create invite", () => undefined],
    ]) {
      await page.goto(path);
      await button(page, open).first().click();
      const dialog = page.getByRole("dialog");
      await dialog.locator("input[name=expiresAt]").waitFor({ state: "attached" });
      await before(dialog);
      await refused(dialog, submit);
    }
  });

const what_the_api_says_of_an_end_is_at_its_field = () =>
  scene({ user: "ann" }, async (page) => {
    const errors = [{ field: "spec.expiresAt", message: "2026-01-01T12:00:00Z is over: write a later time" }];
    const problem = { type: "urn:kite:problem:invalid", title: "Invalid", status: 422, errors };
    await page.route("**/api/v1/vms/web*", (route) =>
      route.request().method() === "PATCH" ? route.fulfill({ status: 422, json: problem }) : route.fallback(),
    );
    await page.goto("/vms/web?tab=settings");
    await page.locator("input[name=expiresAt]").fill(local(Date.now() + DAY));
    await button(page, "Save").first().click();
    await marked(page, "expiresAt");
    await says(page, /(Dec 31, 2025|Jan 1, 2026|Jan 2, 2026), .* is over: write a later time\./);
  });

const an_expired_vm_leads_to_a_later_end = async () => {
  const token = await tokenOf("ann");
  // It is made before that, however busy the machine is.
  const expiresAt = new Date(Date.now() + 10_000).toISOString();
  await api("POST", "/vms", token, { name: "brief", ...SIZE, sshPassword: PASSWORD, expiresAt });
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/");
    const card = page.getByRole("listitem").filter({ has: page.getByRole("link", { name: "brief", exact: true }) });
    await card.locator(".badge[data-tone=bad]", { hasText: "Expired" }).waitFor();
    await card.getByText(/is deleted with its disk on .* \(in [0-9]+ days\)/).waitFor();
    assert.equal(await card.getByRole("button", { name: /^(Start|Stop)/ }).count(), 0);
    await card.getByRole("link", { name: "Details of brief" }).click();
    await heading(page, "brief");
    const notice = page.getByRole("note").filter({ hasText: "Its time is over" });
    await notice.getByText(/is deleted with its disk on .* \(in [0-9]+ days\)/).waitFor();
    assert.equal(await page.getByText("spec.expiresAt").first().isVisible(), false);
    assert.equal(await page.getByText(/[0-9]T[0-9]{2}:[0-9]{2}/).count(), 0);
    assert.ok(await button(page, "Start brief").isDisabled());
    await accessible(page, "an expired VM");
    // As bad wherever it is said, and when it is switched off, too.
    // With kubectl, as the API itself switches nothing on that would stay off.
    const power = (powerState) =>
      kubernetes("PATCH", "/namespaces/kite-user-ann/kitevirtualmachines/brief", { spec: { powerState } });
    for (const powerState of ["On", "Off"]) {
      await power(powerState);
      await page.reload();
      await notice.waitFor();
      await page.locator(".badge[data-tone=bad]", { hasText: "Expired" }).waitFor();
      await page.locator(".timeline li[data-tone=bad]").filter({ hasText: "End" }).first().waitFor();
      assert.equal(await page.locator(".timeline li[data-tone=warn]").count(), 0);
      assert.ok(await button(page, "Start brief").isDisabled());
    }
    await power("On");
    await page.goto("/admin/vms");
    await page.getByRole("row", { name: /brief/ }).getByText(/is deleted with its disk/).waitFor();
    // Its end leads out of it; all else can be edited as it is.
    await page.goto("/vms/brief");
    await notice.getByRole("link", { name: "Set a later end" }).click();
    await focused(page, "expiresAt");
    await fill(page, "Switch off when unused for", "2h");
    await button(page, "Save").first().click();
    await says(page, "Saved.");
    await page.locator("input[name=expiresAt]").fill(local(Date.now() + 30 * DAY));
    await button(page, "Save").first().click();
    await notice.waitFor({ state: "detached" });
    await page.getByText("Running", { exact: true }).first().waitFor();
  });
  await api("DELETE", "/vms/brief", token);
};

const nobody_starts_what_stays_off = async () => {
  const admin = await tokenOf("ann");
  await api("POST", "/admin/users", admin, { username: "sam", password: PASSWORD });
  const token = await tokenOf("sam");
  const make = () => api("POST", "/vms", token, { name: "still", ...SIZE, sshPassword: PASSWORD });
  // A new account's space takes a moment.
  for (let attempt = 0; ; attempt += 1) {
    try {
      await make();
      break;
    } catch (error) {
      if (attempt === 20) throw error;
      await new Promise((done) => setTimeout(done, 500));
    }
  }
  await api("PATCH", "/admin/users/sam", admin, { suspended: true });
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/users/sam/vms/still");
    const notice = page.getByRole("note").filter({ hasText: "the account of its owner is suspended" });
    await notice.getByText("once an administrator has let the account in again").waitFor();
    assert.ok(await button(page, "Start still").isDisabled());
    await page.getByRole("tab", { name: "Terminal" }).click();
    await says(page, "cannot be started now: see above");
    assert.equal(await button(page, "Stop still").count(), 0);
    await accessible(page, "a VM of a suspended account");
    // Also where it is off anyway, of which the controller says no more.
    await api("POST", "/vms/still/stop?owner=sam", admin);
    for (const tab of ["", "?tab=terminal"]) {
      await page.goto(`/users/sam/vms/still${tab}`);
      await notice.getByText("once an administrator has let the account in again").waitFor();
      assert.ok(await button(page, "Start still").isDisabled());
    }
    await says(page, "cannot be started now: see above");
    await api("PATCH", "/admin/users/sam", admin, { suspended: false });
    await page.reload();
    await page.locator(".badge", { hasText: /^Off$/ }).waitFor();
    assert.ok(await button(page, "Start still").isEnabled());
    assert.equal(await notice.count(), 0);
  });
  await api("DELETE", "/admin/users/sam", admin);
};

const a_vm_that_opens_to_nobody_is_told_of_before_and_after = () =>
  scene({ user: "ann" }, async (page) => {
    const warning = "nobody will be able to log in over SSH";
    await page.goto("/");
    await button(page, "New VM").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(warning).waitFor();
    await accessible(page, "the dialog that warns of a VM that opens to nobody");
    await dialog.getByLabel("SSH public keys").fill("ssh-ed25519 AAAA");
    await dialog.getByText(warning).waitFor({ state: "detached" });
    await dialog.getByLabel("SSH public keys").fill("");
    await dialog.getByText(warning).waitFor();
    await dialog.getByRole("button", { name: "Generate" }).click();
    await dialog.getByText(warning).waitFor({ state: "detached" });
    await dialog.getByRole("textbox", { name: "SSH password" }).fill("");
    await dialog.getByLabel("Name", { exact: true }).fill("shut");
    await dialog.getByRole("button", { name: "Create VM" }).click();
    await heading(page, "shut");
    await page.getByText("Running").first().waitFor();
    // A controller says so where it knows it.
    await page.route("**/api/v1/events*", (route) => route.abort());
    await page.route("**/api/v1/vms?*", async (route) => {
      const answer = await (await route.fetch()).json();
      for (const vm of answer.items.filter(({ name }) => name === "shut")) {
        const lastTransitionTime = new Date().toISOString();
        const message = "nobody can log in to the VM by SSH: it has neither a password nor a public key";
        const told = vm.status.conditions.filter(({ type }) => type !== "Accessible");
        const lack = { type: "Accessible", status: "False", reason: "NoCredentials", message, lastTransitionTime };
        vm.status.conditions = [...told, lack];
      }
      await route.fulfill({ json: answer });
    });
    await page.reload();
    await page.locator(".badge[data-tone=warn]", { hasText: "Running, no SSH login" }).waitFor();
    const notice = page.getByRole("note").filter({ hasText: "It has neither a password nor a key" });
    await says(page, "Nobody can log in over SSH.");
    await accessible(page, "a VM that opens to nobody");
    await notice.getByRole("link", { name: "Set who can log in" }).click();
    await focused(page, "sshPassword");
    await api("DELETE", "/vms/shut", await tokenOf("ann"));
  });

const a_korean_page_refuses_in_korean = async () => {
  for (const width of [1440, 390]) {
    await scene({ user: "ann", locale: "ko-KR", width }, async (page) => {
      const said = async (scope, text) => {
        await scope.getByText(text).first().waitFor();
        // No word of the API's own is left but names and examples.
        for (const line of await scope.locator(".error:visible, .notice:visible").allInnerTexts()) {
          assert.match(line, /[가-힣]/);
          assert.doesNotMatch(line, /서버의 설명|[a-z]+ [a-z]+ [a-z]+/, line);
        }
      };
      await page.goto("/");
      await button(page, "새 VM").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Debian 12").click();
      await dialog.getByLabel("이름", { exact: true }).fill("Not a name");
      await dialog.getByText("직접 입력", { exact: true }).click();
      await dialog.getByLabel("디스크", { exact: true }).fill("1Gi");
      await dialog.getByLabel("메모리", { exact: true }).fill("1000Gi");
      await dialog.getByRole("textbox", { name: "SSH 비밀번호" }).fill("short");
      const create = dialog.getByRole("button", { name: "VM 만들기" });
      await create.click();
      for (const name of ["name", "disk", "sshPassword"]) await marked(dialog, name);
      await said(dialog, "너무 짧습니다. 8자 이상이어야 합니다.");
      await said(dialog, /^이미지 "[^"]+"에는 너무 작습니다\. \d+Gi 이상을 입력하세요\.$/);
      await fitsWidth(page, "refusals in Korean");
      await accessible(page, "refusals in Korean");
      await dialog.getByLabel("이름", { exact: true }).fill("busan");
      await dialog.getByLabel("디스크", { exact: true }).fill("10Gi");
      await dialog.getByRole("textbox", { name: "SSH 비밀번호" }).fill("");
      await create.click();
      await marked(dialog, "memory");
      await said(dialog, /^할당량에 남은 메모리보다 많습니다\. 전체 \S+ 가운데 \S+까지 쓸 수 있습니다\.$/);
      // What the page has no words for is told as the API says it, behind what kind it is.
      const problem = { type: "urn:kite:problem:quota-exceeded", title: "Quota exceeded", status: 403, detail: "the moon is full" };
      await page.route("**/api/v1/vms", (route) => route.fulfill({ status: 403, json: problem }), { times: 1 });
      await create.click();
      await dialog.getByText("할당량을 넘습니다. 서버의 설명: The moon is full.").waitFor();
    });
  }
};

const a_korean_page_says_all_of_it_in_korean = async () => {
  const token = await tokenOf("ann");
  await api("POST", "/vms", token, { name: "seoul", ...SIZE, sshPassword: PASSWORD, expiresAt: new Date(Date.now() + DAY / 2).toISOString() });
  for (const width of [1440, 390]) {
    await scene({ user: "ann", locale: "ko-KR", width }, async (page) => {
      await page.goto("/vms/seoul");
      await page.getByText("실행 중", { exact: true }).first().waitFor();
      await page.locator(".notice", { hasText: "곧 종료됩니다" }).waitFor();
      for (const line of await page.locator(".timeline li > div > p, .notice p:not([lang])").allInnerTexts()) {
        assert.match(line, /[가-힣]/);
        assert.doesNotMatch(line, /[0-9]T[0-9]{2}:/);
      }
      await fitsWidth(page, "a VM that ends soon, in Korean");
      // What the controller says can be looked at.
      const details = page.locator(".notice details");
      assert.equal(await details.locator("p").isVisible(), false);
      await details.locator("summary").click();
      await details.getByText("the VM is switched off").waitFor();
      assert.doesNotMatch(await details.innerText(), /[0-9]T[0-9]{2}:/);
    });
  }
  await api("DELETE", "/vms/seoul", token);
};

export default {
  an_end_that_is_over_is_refused_wherever_there_is_one,
  what_the_api_says_of_an_end_is_at_its_field,
  an_expired_vm_leads_to_a_later_end,
  nobody_starts_what_stays_off,
  a_vm_that_opens_to_nobody_is_told_of_before_and_after,
  a_korean_page_refuses_in_korean,
  a_korean_page_says_all_of_it_in_korean,
};

// What the owner of an account is told of until they have seen it.

import assert from "node:assert/strict";
import { PASSWORD, SIZE, accessible, api, button, fitsWidth, heading, says, scene, tokenOf } from "./world.mjs";

const notices_come_by_themselves_and_stay_until_they_are_seen = async () => {
  const root = await tokenOf("ann");
  await api("POST", "/admin/users", root, { username: "nora", password: PASSWORD });
  const nora = await tokenOf("nora");
  await scene({ user: "nora" }, async (page) => {
    await page.goto("/");
    await heading(page, "Virtual machines");
    // The browser is another place than the script.
    await button(page, "Notices: 1 new").click();
    const panel = page.getByRole("dialog", { name: "Notices" });
    await panel.getByText(/Somebody signed in from a new place: Chrome/).waitFor();
    await accessible(page, "notices");
    await panel.getByRole("button", { name: "I have seen these" }).click();
    await panel.waitFor({ state: "detached" });
    await button(page, "Notices: nothing new").waitFor();

    // Without being asked for.
    await api("POST", "/me/tokens", nora, { name: "backup", scopes: ["vms:read"] });
    await button(page, "Notices: 1 new").waitFor();
    await api("PATCH", "/admin/users/nora", root, { quota: { vms: 3, cpu: 4, memory: "8Gi", disk: "100Gi" } });
    await button(page, "Notices: 2 new").waitFor();
    const soon = new Date(Date.now() + 7_200_000).toISOString();
    await api("POST", "/vms", nora, { name: "brief", ...SIZE, expiresAt: soon });
    await button(page, "Notices: 3 new").waitFor();
    // Who makes one and ends it at once is told of, too.
    await api("POST", "/me/tokens", nora, { name: "gone", scopes: ["vms:read"] });
    await api("DELETE", "/me/tokens/gone", nora);
    await button(page, "Notices: 4 new").waitFor();
  });
  await scene({ user: "nora", width: 390, locale: "ko-KR" }, async (page) => {
    await page.goto("/");
    await button(page, "알림: 새 알림 4개").click();
    const panel = page.getByRole("dialog", { name: "알림" });
    await panel.getByText("액세스 토큰 backup을(를) 만들었습니다.").waitFor();
    await panel.getByText("액세스 토큰 gone을(를) 만들었습니다.").waitFor();
    await panel.getByText("할당량이 바뀌었습니다.").waitFor();
    await panel.getByText(/^brief은\(는\) 기한이 끝나/).waitFor();
    assert.equal(await panel.getByRole("listitem").count(), 4);
    await accessible(page, "notices on a phone");
    await fitsWidth(page, "notices on a phone");
    await panel.getByRole("button", { name: "모두 확인함" }).click();
    await panel.waitFor({ state: "detached" });
    await button(page, "알림: 새 알림 없음").waitFor();
    await page.reload();
    await button(page, "알림: 새 알림 없음").click();
    await says(page, "확인하지 않은 알림이 없습니다.");
  });
  await api("DELETE", "/vms/brief", nora);
};

const many_notices_are_counted_and_put_away_with_those_that_are_shown = async () => {
  const root = await tokenOf("ann");
  await api("POST", "/admin/users", root, { username: "nick", password: PASSWORD });
  const nick = await tokenOf("nick");
  for (let number = 0; number < 15; number += 1) {
    await api("POST", "/me/tokens", nick, { name: `n-${number}`, scopes: ["vms:read"] });
  }
  await scene({ user: "nick" }, async (page) => {
    await page.goto("/");
    // With the browser's own sign-in.
    await button(page, "Notices: 16 new").click();
    const panel = page.getByRole("dialog", { name: "Notices" });
    await panel.getByText(/^And 3 more/).waitFor();
    assert.equal(await panel.getByRole("listitem").count(), 13);
    // What comes while they are read is shown and put away with them.
    await api("PATCH", "/admin/users/nick", root, { quota: { vms: 3, cpu: 4, memory: "8Gi", disk: "100Gi" } });
    await panel.getByText("Your quota is another one.").waitFor();
    await accessible(page, "many notices");
    await panel.getByRole("button", { name: "I have seen these" }).click();
    await panel.waitFor({ state: "detached" });
    await button(page, "Notices: nothing new").waitFor();
  });
};

export default {
  notices_come_by_themselves_and_stay_until_they_are_seen,
  many_notices_are_counted_and_put_away_with_those_that_are_shown,
};

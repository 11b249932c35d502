import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PASSWORD, accessible, api, button, heading, says, scene, tokenOf } from "./world.mjs";

const { KITE_STATE, KITE_GATEWAY } = process.env;

/** Logs in to the demo's VM as a person does, and runs a command in a terminal. */
function ssh(command) {
  const [, host, port] = /^(.*):([0-9]+)$/.exec(KITE_GATEWAY);
  const child = spawn(
    "ssh",
    [
      ["-tt", "-F", "none", "-i", join(KITE_STATE, "id_ed25519"), "-p", port],
      ["-o", "IdentitiesOnly=yes", "-o", `UserKnownHostsFile=${join(KITE_STATE, "known_hosts")}`],
      [`hello@${host}`, command],
    ].flat(),
    { stdio: ["pipe", "pipe", "pipe"] },
  );
  let said = "";
  const closed = once(child, "close");
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  const until = async (text) => {
    while (!said.includes(text)) {
      assert.equal(child.exitCode, null, said);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  return { until, ended: async () => [(await closed)[0], said], kill: () => child.kill() };
}

const row = (page, table, name) => page.getByRole("table", { name: table }).getByRole("row", { name });

const a_session_is_seen_and_ended_with_a_reason = () =>
  scene({ user: "ann" }, async (page) => {
    const session = ssh("echo in; sleep 300");
    try {
      await session.until("in");
      // The page hears of what changes, and asks then.
      const followed = page.waitForResponse((it) => it.url().endsWith("/events?sessions=all"));
      await page.goto("/admin/sessions");
      await heading(page, "Sessions in VMs");
      assert.equal((await followed).status(), 200);
      const live = row(page, "Connected now", /hello/);
      await live.waitFor();
      await live.getByText("OpenSSH", { exact: false }).waitFor();
      await live.getByText("login name · ssh").waitFor();
      await live.getByText(/^[0-9]+ (second|minute)s?/).first().waitFor();
      // It has the same columns before, while and after somebody ends a session.
      const columns = () => page.getByRole("table", { name: "Connected now" }).getByRole("columnheader").allInnerTexts();
      assert.deepEqual(await columns(), ["Who", "VM", "From", "Connected", "Duration", "Actions"]);
      await accessible(page, "sessions in VMs");
      await button(page, "End the session of hello from 127.0.0.1").click();
      const dialog = page.getByRole("dialog", { name: "End the session of hello?" });
      await dialog.getByLabel("Reason (optional)").fill("the VM moves");
      await accessible(page, "the dialog that ends a session");
      await dialog.getByRole("button", { name: "End session" }).click();
      await says(page, "The session is being ended.");
      const [code, said] = await session.ended();
      assert.notEqual(code, 0);
      assert.match(said, /ended by ann: the VM moves/);
      await row(page, "Ended", /ended by ann: the VM moves/).waitFor();
      await says(page, "Nobody is connected.");
    } finally {
      session.kill();
    }
  });

const a_vm_shows_who_is_in_it = () =>
  scene({ user: "ann" }, async (page) => {
    const session = ssh("echo in; sleep 300");
    try {
      await session.until("in");
      await page.goto("/users/demo/vms/hello?tab=sessions");
      await row(page, "Connected now", /hello/).waitFor();
      await row(page, "Ended", /the VM moves/).waitFor();
    } finally {
      session.kill();
    }
    await says(page, "Nobody is connected.");
  });

const what_was_recorded_is_replayed = () =>
  scene({ user: "ann", waits: false }, async (page) => {
    await page.goto("/admin/sessions");
    const over = row(page, "Ended", /hello/);
    await over.first().waitFor();
    const before = await over.count();
    const [, said] = await ssh("echo first''-words; sleep 2; echo last''-words").ended();
    assert.match(said, /this session is recorded/);
    await over.nth(before).waitFor();
    // The session is over before its recording is safely where it is kept.
    const stored = { type: "urn:kite:problem:conflict", title: "conflict", status: 409, detail: "being stored" };
    let isStored = false;
    await page.route("**/recordings/*", (route) =>
      isStored ? route.fallback() : route.fulfill({ status: 409, json: stored, headers: { "retry-after": "1" } }),
    );
    await over.first().getByRole("button", { name: "Replay recording 1 of hello" }).click();
    const dialog = page.getByRole("dialog", { name: "Recording of hello on hello" });
    await dialog.getByRole("status").getByText("It plays as soon as it is.").waitFor();
    isStored = true;
    const shows = (text, is) =>
      page.waitForFunction(
        // What is on the screen, not what was read out.
        ([text, is]) => document.querySelector(".player .xterm-accessibility-tree")?.textContent?.includes(text) === is,
        [text, is],
      );
    await shows("first-words", true);
    await shows("last-words", true);
    // It has come to its end, and can be played by keys alone.
    const position = dialog.getByRole("slider", { name: "Position" });
    await button(page, "Play").waitFor();
    await position.focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await shows("last-words", false);
    // So short a one is told by parts of seconds, and has all the room that there is.
    assert.match(await position.getAttribute("aria-valuetext"), /^0:0\d\.\d of 0:0\d\.\d$/);
    const widths = () =>
      page.evaluate(() => [
        document.querySelector(".player .xterm-screen").getBoundingClientRect().width,
        document.querySelector(".player .xterm-screen").getBoundingClientRect().height,
        document.querySelector(".player").clientWidth,
        document.querySelector(".player").clientHeight,
      ]);
    const [letters, , room] = await widths();
    assert.ok(room > 1200 && letters <= room && letters > room / 2, `${letters} of ${room} px`);
    await accessible(page, "the player");
    await dialog.getByRole("button", { name: "Full screen" }).click();
    await dialog.getByRole("button", { name: "Leave full screen" }).waitFor();
    await page.waitForFunction((before) => document.querySelector(".player .xterm-screen").clientWidth > before, letters);
    const [wide, high, ...screen] = await widths();
    assert.ok(wide <= screen[0] && high <= screen[1], `${wide}×${high} of ${screen} px`);
    // Its list is seen there, too.
    await dialog.getByRole("button", { name: /Speed/ }).click();
    await page.locator(".player .popover").getByRole("option", { name: "4×" }).click();
    await dialog.getByRole("button", { name: "Leave full screen" }).click();
    await dialog.getByRole("button", { name: "Full screen", exact: true }).waitFor();
    await dialog.getByRole("button", { name: /Speed/ }).press("Enter");
    await page.getByRole("option", { name: "16×" }).click();
    await button(page, "Play").press("Enter");
    await shows("last-words", true);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

const a_recording_that_is_too_long_is_played_in_part_and_downloaded = () =>
  scene({ user: "ann" }, async (page) => {
    const week = 7 * 86_400;
    const lines = [{ version: 2, width: 80, height: 24 }, [1, "o", "\x1b[38;2;255;100;0mthe-begin"], [week + 1, "o", "the-end"]];
    const body = lines.map((line) => JSON.stringify(line)).join("\n");
    await page.goto("/admin/sessions");
    const replay = async () => {
      await row(page, "Ended", /hello/).first().getByRole("button", { name: "Replay recording 1 of hello" }).click();
      return page.getByRole("dialog", { name: "Recording of hello on hello" });
    };
    await page.route("**/recordings/*", (route) => route.fulfill({ body }), { times: 1 });
    const dialog = await replay();
    await dialog.getByText("these are its first 0:01").waitFor();
    await dialog.locator(".xterm-accessibility-tree", { hasText: "the-begin" }).waitFor({ state: "attached" });
    const letters = dialog.locator(".xterm-rows span", { hasText: "the-begin" }).first();
    assert.equal(await letters.evaluate((element) => getComputedStyle(element).color), "rgb(255, 100, 0)");
    await accessible(page, "a part of a recording");
    const command = await dialog.locator("code").innerText();
    const downloads = page.waitForEvent("download");
    await dialog.getByRole("link", { name: "Download the recording" }).click();
    const download = await downloads;
    assert.equal(command, `asciinema play ${download.suggestedFilename()}`);
    // The real one, as the gateway has recorded it.
    assert.match(readFileSync(await download.path(), "utf8"), /first-words/);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });

    for (const [events, told] of [
      [[[1, "r", "100x30"]], "there is nothing to replay"],
      [[[0, "o", "all-of-it"]], "All of this appeared at once."],
    ]) {
      const body = [lines[0], ...events].map((line) => JSON.stringify(line)).join("\n");
      await page.route("**/recordings/*", (route) => route.fulfill({ body }), { times: 1 });
      await replay();
      await dialog.getByText(told, { exact: false }).waitFor();
      await accessible(page, told);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }

    await page.route("**/recordings/*", (route) => route.fulfill({ body: "{}" }), { times: 1 });
    await replay();
    await dialog.getByRole("alert").getByText("no recording that can be played here").waitFor();
  });

const a_console_is_a_session_too = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/vms/web?tab=terminal");
    await button(page, "Connect").click();
    await page.locator(".text-console .xterm").waitFor();
    const other = await page.context().newPage();
    await other.goto("/vms/web?tab=sessions");
    const live = row(other, "Connected now", /ann account · terminal/);
    await live.getByRole("button", { name: /^End the session of ann/ }).click();
    await other.getByRole("dialog").getByRole("button", { name: "End session" }).click();
    await says(page, "You have ended this session.");
    const ended = row(other, "Ended", /ended by ann/);
    await ended.waitFor();
    assert.doesNotMatch(await ended.innerText(), /\([0-9]+\)/);
  });

const who_is_cut_off_reads_by_whom_and_why = () =>
  scene({ user: "ann" }, async (page) => {
    const ann = await tokenOf("ann");
    await api("POST", "/admin/users", ann, { username: "mia", password: PASSWORD, accessLevel: "Admin" });
    await page.goto("/vms/web?tab=terminal");
    await button(page, "Connect").click();
    await page.locator(".text-console .xterm").waitFor();
    const mia = await tokenOf("mia");
    const live = async () => (await api("GET", "/vms/web/sessions?owner=ann&live=true", mia)).items[0];
    let session = await live();
    while (session === undefined) session = await live();
    // More than a close frame has room for.
    const reason = "정기 점검입니다. ".repeat(18).trim();
    await api("DELETE", `/admin/sessions/${session.name}?reason=${encodeURIComponent(reason)}`, mia);
    await says(page, `mia has ended this session. Reason: ${reason}`);
    assert.equal(await page.getByRole("alert").count(), 0, "nothing is broken");
    await api("DELETE", "/admin/users/mia", ann);
  });

export default {
  a_session_is_seen_and_ended_with_a_reason,
  a_vm_shows_who_is_in_it,
  what_was_recorded_is_replayed,
  a_recording_that_is_too_long_is_played_in_part_and_downloaded,
  a_console_is_a_session_too,
  who_is_cut_off_reads_by_whom_and_why,
};

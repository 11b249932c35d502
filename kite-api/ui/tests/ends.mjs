// What the page makes of numbers and codes, without a browser.

import assert from "node:assert/strict";
import { build } from "vite";

/** A module of the page, with what it needs of others. */
async function load(path) {
  const entry = new URL(`../src/${path}`, import.meta.url).pathname;
  const { output } = await build({ configFile: false, logLevel: "silent", build: { ssr: entry, write: false } });
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

/** The kind, and what the API says. */
const refusalText = ({ kind, detail }) => `${kind}: ${detail}`;

/** The key, and what goes into it. */
const t = (key, values = {}) => [key.replace("console.end.", ""), ...Object.values(values)].join(" ");

const why_a_console_ended_is_told_by_what_is_known = async () => {
  const { endOf, endText, isBad } = await load("pages/vm/console/end.ts");
  for (const [code, reason, said, words, bad] of [
    [1000, "ended with status 3", { cause: { exited: 3 } }, "exited 3", false],
    [1000, "", { cause: { killed: "TERM" } }, "killed TERM", false],
    [1000, "the VM was restarted", { cause: "vmRestarted" }, "vmRestarted", false],
    [1000, "", { cause: "vmStopped" }, "vmStopped", false],
    // Of a newer API, and of an older one.
    [1000, "", { cause: "vmTeleported" }, "closed", false],
    [1000, "", { cause: null }, "closed", false],
    [1000, "", { ready: true }, "closed", false],
    [4410, "ended by bob: move", { ended: { by: "bob", reason: "move" } }, "endedBy bob reason move", false],
    [4410, "ended by ann", { ended: { by: "ann", reason: "" } }, "endedSelf", false],
    [4500, "the VM's side was lost", {}, "failed The VM's side was lost.", true],
    [4500, "no", { error: { type: "urn:kite:problem:conflict", detail: "it is off" } }, "refused conflict: it is off", true],
    [4401, "no", { error: { type: "urn:kite:problem:unauthenticated", detail: "over" } }, "session-over unauthenticated: over", true],
    // Of somebody who knows no kinds.
    [4500, "no", { error: { detail: "it is off" } }, "refused It is off.", true],
    [1006, "", {}, "broken", true],
    [4999, "", {}, "unknown 4999", true],
  ]) {
    const end = endOf(code, reason, said);
    assert.equal(endText(end, "ann", t, refusalText), words);
    assert.equal(isBad(end), bad, words);
  }
};

const a_clock_tells_tenths_where_they_matter = async () => {
  const { clock } = await load("lib/clock.ts");
  assert.deepEqual([0, 7.9, 187, 3787].map((seconds) => clock(seconds)), ["0:00", "0:07", "3:07", "1:03:07"]);
  // 0.3 and 1.1 are a little less than that, as numbers.
  const short = [0, 0.3, 1.1, 0.99, 9.96, 3.1999999999].map((seconds) => clock(seconds, true));
  assert.deepEqual(short, ["0:00.0", "0:00.3", "0:01.1", "0:00.9", "0:09.9", "0:03.2"]);
};

const letters_fill_the_room_and_can_be_read = async () => {
  const { fontSizeFor } = await load("pages/sessions/fit.ts");
  const cell = { width: 0.6, height: 1.2 };
  const fits = (width, height, cols, rows) => fontSizeFor({ width, height }, cell, cols, rows);
  assert.equal(fits(1200, 600, 80, 24), 20.75, "as high as there is room");
  assert.equal(fits(1200, 2000, 80, 24), 25, "as wide as there is room");
  assert.equal(fits(1200, 300, 80, 60), 10, "rather scrolled than unreadable");
  assert.equal(fits(300, 600, 200, 24), 6, "never smaller");
  assert.equal(fits(5000, 5000, 20, 5), 32, "never larger");
};

export default {
  why_a_console_ended_is_told_by_what_is_known,
  a_clock_tells_tenths_where_they_matter,
  letters_fill_the_room_and_can_be_read,
};

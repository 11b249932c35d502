// How recordings are read, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { transformWithEsbuild } from "vite";

const source = new URL("../src/pages/sessions/cast.ts", import.meta.url);
const { code } = await transformWithEsbuild(readFileSync(source, "utf8"), "cast.ts");
const { LIMITS, isEmpty, readCast } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

const HEADER = { version: 2, width: 100, height: 30 };
const textOf = (...lines) => lines.map((line) => `${JSON.stringify(line)}\n`).join("");

/** A stream of these bytes in pieces of so many; tells whether it was wanted to its end. */
function streamOf(text, size = 65_536) {
  const bytes = new TextEncoder().encode(text);
  let from = 0;
  const told = { isCancelled: false };
  const stream = new ReadableStream({
    pull(controller) {
      controller.enqueue(bytes.slice(from, from + size));
      from += size;
      if (from >= bytes.length) controller.close();
    },
    cancel: () => {
      told.isCancelled = true;
    },
  });
  return { stream, told };
}

const read = (text, { size, ...limits } = {}) => readCast(streamOf(text, size).stream, { ...LIMITS, ...limits });
const printed = ({ moments }) => moments.map((moment) => moment.printed ?? "").join("");

const a_recording_is_read_in_whatever_pieces_it_comes = async () => {
  const text = textOf(HEADER, [0.5, "o", "안녕"], [1, "r", "80x24"], [2, "i", "typed"], [3, "o", "🪁"]) + '[4, "o", "half';
  for (const size of [1, 2, 3, 7, 1000]) {
    const cast = await read(text, { size });
    assert.equal(printed(cast), "안녕🪁");
    assert.deepEqual(cast.moments[1].size, { cols: 80, rows: 24 });
    assert.deepEqual([cast.cols, cast.rows, cast.length, cast.isCut], [100, 30, 3, false]);
  }
};

const what_is_no_recording_is_none = async () => {
  for (const text of ["", "{}", "not JSON\n", textOf({ ...HEADER, version: 1 }), textOf({ ...HEADER, width: 1e9 })]) {
    assert.equal(await read(text), null, text);
  }
};

const what_shows_nothing_is_empty = async () => {
  for (const [events, empty] of [
    [[], true],
    [[[1, "r", "80x24"], [2, "o", ""], [3, "i", "typed"]], true],
    [[[0, "o", "word"]], false],
  ]) {
    assert.equal(isEmpty(await read(textOf(HEADER, ...events))), empty);
  }
};

const times_and_sizes_that_make_no_sense_do_no_harm = async () => {
  const cast = await read(textOf(HEADER, [5, "o", "a"], [-1, "o", "b"], [5, "r", "99999x1"], ["6", "o", "c"], 7, [5, "o"]));
  assert.deepEqual(cast.moments, [
    { at: 5, printed: "a" },
    { at: 5, printed: "b" },
  ]);
};

const too_much_is_cut_and_not_asked_for = async () => {
  const events = Array.from({ length: 100 }, (_, n) => [n, "o", "word "]);
  const text = textOf(HEADER, ...events);
  for (const limits of [{ moments: 10 }, { bytes: 300 }, { seconds: 9.5 }]) {
    const { stream, told } = streamOf(text, 50);
    const cast = await readCast(stream, { ...LIMITS, ...limits });
    assert.ok(cast.isCut && cast.moments.length > 5 && cast.moments.length < 20, JSON.stringify(limits));
    assert.equal(cast.length, cast.moments.length - 1);
    assert.ok(told.isCancelled, JSON.stringify(limits));
  }
  // A line without an end.
  const cast = await read(textOf(HEADER, [1, "o", "word"]) + "x".repeat(5000), { size: 100, line: 1000 });
  assert.deepEqual([printed(cast), cast.isCut], ["word", true]);
  assert.equal((await read(text)).isCut, false);
};

const others_have_their_turn_while_it_is_read = async () => {
  const text = textOf(HEADER) + '[1, "o", "word"]\n'.repeat(300_000);
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 0);
  const { moments } = await read(text);
  clearInterval(timer);
  assert.equal(moments.length, 300_000);
  assert.ok(turns > 1, `${turns}`);
};

export default {
  a_recording_is_read_in_whatever_pieces_it_comes,
  what_is_no_recording_is_none,
  what_shows_nothing_is_empty,
  times_and_sizes_that_make_no_sense_do_no_harm,
  too_much_is_cut_and_not_asked_for,
  others_have_their_turn_while_it_is_read,
};

// What the page writes, without a browser.

import assert from "node:assert/strict";
import { runnerImport } from "vite";

const source = new URL("../src/", import.meta.url).pathname;
const load = async (file) => (await runnerImport(`${source}${file}`, { configFile: false })).module;
const { wordsOf } = await load("lib/words.ts");
const { duration, lasted } = await load("lib/span.ts");

const a_command_is_broken_between_words_and_before_a_host = async () => {
  assert.deepEqual(wordsOf("ssh -p 30022 web-1@ssh.example.org"), [["ssh"], ["-p"], ["30022"], ["web-1", "@ssh.example.org"]]);
  assert.equal(wordsOf("a  b@c@d").map((word) => word.join("")).join(" "), "a  b@c@d");
};

const how_long_something_took_is_said_by_its_largest_units = async () => {
  const from = "2026-01-01T12:00:00Z";
  const after = (seconds, tag = "en-US") => lasted(from, Date.parse(from) + seconds * 1000, tag);
  assert.equal(after(0), "0 seconds");
  assert.equal(after(-5), "0 seconds");
  assert.equal(after(61), "1 minute 1 second");
  assert.equal(after(3 * 3600 + 5 * 60 + 7), "3 hours 5 minutes");
  assert.equal(after(2 * 86_400 + 3600 + 60, "ko-KR"), "2일 1시간");
  assert.deepEqual(["72h", "90m", "soon"].map((span) => duration(span, "en-US")), ["3 days", "1 hour 30 minutes", "soon"]);
};

export default {
  a_command_is_broken_between_words_and_before_a_host,
  how_long_something_took_is_said_by_its_largest_units,
};

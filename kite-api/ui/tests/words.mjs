// What is said of VMs and of times, in each language, without a browser.

import assert from "node:assert/strict";
import { runnerImport } from "vite";

const source = new URL("../src/", import.meta.url).pathname;
const load = async (file) => (await runnerImport(`${source}${file}`, { configFile: false })).module;
const { dateTime, exampleTime, isOver, toLocalInput, withLocalTimes } = await load("lib/time.ts");
const { explain, isTold } = await load("lib/reasons.ts");
const { BEGINNINGS, ENDS, endText } = await load("pages/sessions/ends.ts");
const { earlierText } = await load("pages/sessions/earlier.ts");
const { leastDisk } = await load("lib/sizes.ts");
const { en } = await load("i18n/en.ts");
const { ko } = await load("i18n/ko.ts");

const NOW = Date.parse("2026-01-01T12:00:00Z");
const LANGUAGES = [
  ["en-US", en],
  ["ko-KR", ko],
];
const translate = (words) => (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
const hangul = /[가-힣]/;

const VM = {
  image: "debian-12",
  disk: "10Gi",
  sshId: "web-1",
  domainPrefix: "shop",
  offer: "gift",
  idleTimeout: "7200s",
  expiresAt: "2026-01-01T11:00:00Z",
  status: { domain: "shop.vm.kite.test", deleteAt: "2026-01-08T11:00:00Z", conditions: [] },
};
const conditionOf = (reason, type = "Ready", message = "the VM is so") => ({ type, status: "False", reason, message });

const whole_times_in_a_text_are_those_of_the_reader = async () => {
  for (const [tag] of LANGUAGES) {
    const [one, other] = ["2026-01-01T12:00:00Z", "2026-01-02T12:00:00.25+09:00"];
    assert.equal(
      withLocalTimes(`at ${one} it is off: at ${other}, it goes; ${one}.`, tag),
      `at ${dateTime(one, tag)} it is off: at ${dateTime(other, tag)}, it goes; ${dateTime(one, tag)}.`,
    );
    for (const text of ["2026-01-01", "2026-01-01T12:00:00", "12:00:00Z", "2026-13-41T99:00:00Z", "backup-2026-01-01T12:00:00Z-old"]) {
      assert.equal(withLocalTimes(text, tag), text);
    }
  }
};

const an_end_is_over_by_the_clock = async () => {
  const at = (minutes) => toLocalInput(new Date(NOW + minutes * 60_000).toISOString());
  assert.deepEqual([at(-1), at(0), at(1), ""].map((value) => isOver(value, NOW)), [true, true, false, false]);
  assert.match(exampleTime(NOW), /2027/);
};

const a_reason_is_told_in_the_language_of_the_reader = async () => {
  const reasons = Object.keys(en).filter((key) => key.startsWith("reason.") && key !== "reason.details");
  for (const [tag, words] of LANGUAGES) {
    for (const key of reasons) {
      const [, type, reason] = key.match(/^reason\.(?:(\w+)\.)?(\w+)$/);
      if (["short", "other", "both"].includes(reason)) continue;
      const { text, original } = explain(VM, conditionOf(reason, type), translate(words), tag, NOW);
      assert.doesNotMatch(text, /[{}]/, key);
      assert.equal(hangul.test(text), tag === "ko-KR", `${key}: ${text}`);
      assert.equal(original, "the VM is so");
    }
  }
  const both = { ...VM, sshLogin: "KeyAndPassword" };
  const [one, other] = [VM, both].map((vm) => explain(vm, conditionOf("NoCredentials", "Accessible"), translate(en), "en-US").text);
  assert.notEqual(one, other);
  const expired = explain(VM, conditionOf("Expired"), translate(en), "en-US", NOW).text;
  assert.match(expired, /in 7 days/);
  assert.ok(expired.includes(dateTime(VM.status.deleteAt, "en-US")), expired);
};

const what_is_not_known_is_not_told_of = async () => {
  const bare = { image: "debian-12", status: { conditions: [] } };
  const told = (vm, condition) => explain(vm, condition, translate(ko), "ko-KR", NOW);
  const at = "2026-01-01T11:00:00Z";
  const message = `could be claimed until ${at}`;
  assert.deepEqual(told(bare, conditionOf("OfferExpired", "Ready", message)), {
    text: `Could be claimed until ${dateTime(at, "ko-KR")}.`,
    isShort: false,
  });
  assert.match(told({ ...bare, expiresAt: at }, conditionOf("Expired")).text, hangul);
  // A reason that a later controller gives.
  assert.equal(told(VM, conditionOf("Enchanted")).text, "The VM is so.");
  assert.equal(told(VM, conditionOf("toString")).text, "The VM is so.");
  // One of a Gateway's own.
  const { text, isShort } = told(VM, conditionOf("NoMatchingParent", "Exposed"));
  assert.deepEqual([hangul.test(text), isShort], [true, true]);
  assert.equal(explain(VM, conditionOf("Refused", "Exposed"), translate(en), "en-US").text, en["reason.Exposed.Refused"]);
};

const the_words_of_others_are_seen_at_once = async () => {
  const seen = (reason, isWrong) => {
    const condition = conditionOf(reason, "VirtualMachineReady");
    return isTold(condition, explain(VM, condition, translate(ko), "ko-KR", NOW), isWrong);
  };
  for (const reason of ["Unschedulable", "ImagePull", "ImageFailed", "DataVolumeError", "StartBlocked", "PausedIOError"]) {
    assert.deepEqual([seen(reason, true), seen(reason, false)], [true, false], reason);
  }
  // They say so of what can be used.
  for (const reason of ["RunningWithFault", "ResizeWaits", "ResizeFailed", "DiskWithFault", "DiskUnmanaged"]) {
    assert.equal(seen(reason, false), true, reason);
  }
  for (const reason of ["Running", "Filled", "CrashLoopBackOff"]) assert.equal(seen(reason, true), false, reason);
};

const a_disk_is_no_smaller_than_what_is_in_its_image = async () => {
  for (const [minDisk, size, least] of [
    ["2Gi", "10Gi", "10Gi"],
    ["10Gi", "2147483648", "10Gi"],
    ["10Gi", undefined, "10Gi"],
  ]) {
    assert.equal(leastDisk({ minDisk, size }), least);
  }
};

const the_end_of_a_session_is_told_in_the_language_of_the_reader = async () => {
  for (const [tag, words] of LANGUAGES) {
    const t = translate(words);
    const all = [...Object.keys(ENDS), ...Object.keys(BEGINNINGS).map((it) => `${it}7`)];
    for (const why of all) assert.equal(hangul.test(endText({ why }, t)), tag === "ko-KR", why);
    assert.match(endText({ why: "ended with status 7" }, t), /7/);
    const ending = { by: "ann", reason: "점검", at: "" };
    assert.match(endText({ why: "ended by ann: 점검", ending }, t), /ann.*점검/);
    assert.equal(endText({ why: "something else" }, t), "something else");
    assert.equal(endText({ why: "toString" }, t), "toString");
    assert.equal(endText({}, t), undefined);
  }
};

const sessions_that_are_only_counted_are_told_of = async () => {
  const some = (count, firstOpenedAt, peers) => ({ earlier: { count, firstOpenedAt, peers } });
  const many = Array.from({ length: 16 }, (_, number) => `192.0.2.${number}`);
  for (const [tag, words] of LANGUAGES) {
    const told = (...sessions) => earlierText(sessions, translate(words), tag);
    assert.equal(told(), undefined);
    assert.equal(told({}, {}), undefined);
    const first = "2025-12-01T12:00:00Z";
    const text = told({}, some(3, "2025-12-02T12:00:00Z", ["192.0.2.1"]), some(9, first, ["192.0.2.1", "2001:db8::1"]));
    assert.match(text, /12/);
    assert.ok(text.includes(dateTime(first, tag)), text);
    assert.ok(text.includes("192.0.2.1, 2001:db8::1"), text);
    assert.doesNotMatch(text, /…|[{}]/);
    assert.equal(hangul.test(text), tag === "ko-KR", text);
    // There may be more than are named.
    const all = told(some(99, first, many), some(1, first, ["198.51.100.1"]));
    assert.ok(all.includes("192.0.2.15, …") && !all.includes("198.51.100.1"), all);
    assert.match(told(some(1, first, [])), /–/);
  }
};

export default {
  whole_times_in_a_text_are_those_of_the_reader,
  an_end_is_over_by_the_clock,
  a_reason_is_told_in_the_language_of_the_reader,
  what_is_not_known_is_not_told_of,
  the_words_of_others_are_seen_at_once,
  a_disk_is_no_smaller_than_what_is_in_its_image,
  the_end_of_a_session_is_told_in_the_language_of_the_reader,
  sessions_that_are_only_counted_are_told_of,
};

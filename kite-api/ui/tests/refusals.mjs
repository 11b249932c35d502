// What the API says when it refuses, in the language of the reader, without a browser.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { runnerImport } from "vite";

const source = new URL("../src/", import.meta.url).pathname;
const load = async (file) => (await runnerImport(`${source}${file}`, { configFile: false })).module;
const { problemText, refusalText } = await load("lib/refusals.ts");
const { refusals } = await load("i18n/refusals.ko.ts");

const hangul = /[가-힣]/;
const told = (text, kind = "invalid") => refusalText(text, kind, refusals);

const what_is_known_is_told_with_its_values = async () => {
  for (const [said, parts] of [
    ["too many attempts: try again in 42 s", ["42초 뒤에"]],
    ["is too short: use at least 8 characters", ["8자 이상"]],
    ['is too small for the image "debian-12": write at least 10Gi', ['"debian-12"', "10Gi 이상"]],
    ["is not in the catalogue: choose one of debian-12, ubuntu-24.04", ["debian-12, ubuntu-24.04"]],
    ["is more memory than is left of the quota: at most 512Mi of 16Gi", ["메모리", "512Mi까지", "16Gi"]],
    ["is more CPUs than is left of the quota: nothing of 4", ["CPU", "남은 것이 없습니다", "4"]],
    [
      "the quota does not allow so many CPUs (quota 4, 3 used by others of your VMs) and memory (quota 16Gi): delete a VM, ask for less, or ask an administrator for more",
      ["CPU(할당량 4, 다른 VM이 3 사용), 메모리(할당량 16Gi)"],
    ],
    ['there is no VM named "web"', ['이름이 "web"인 VM이 없습니다']],
    ["is missing: write a whole number such as 2", ["2와 같은 정수를"]],
    ["you have 8 consoles open: close one and try again", ["8개", "하나를 닫고"]],
    ["currentPassword is not the password of the account: try again", ["현재 비밀번호가"]],
    ["you may not delete the VM (another account) with access level User: ask an administrator", ["(사용자)", "다른 계정", "VM 삭제"]],
    ["is in the past: write a time in the future, or leave it out if the VM is not to expire", ["지난 시각", "비워 두세요"]],
    ["the VM is off: start it with POST /api/v1/vms/{name}/start", ["꺼져 있습니다"]],
    ["number 2 (CN=b) did not sign number 1 (CN=a): write the server's own first, then the one that signed it, and so on", ["2번째(CN=b)", "1번째(CN=a)"]],
  ]) {
    const text = told(said);
    for (const part of parts) assert.ok(text.includes(part), `${said}: ${text}`);
    assert.doesNotMatch(text, /[{}]/);
    // Nothing of the English is left but what was filled in.
    assert.doesNotMatch(text, /서버의 설명/, said);
  }
};

const each_answer_to_bad_input_is_known = async () => {
  const page = await readFile(`${process.env.KITE_DOCS}/bad-input.md`, "utf8");
  const rows = page.split("\n").filter((line) => line.startsWith("| `"));
  const messages = new Set(rows.map((row) => row.split(" | ")[2].slice(1, -1)));
  assert.ok(messages.size > 30, `${messages.size}`);
  const unknown = [...messages].filter((message) => /서버의 설명/.test(told(message)));
  assert.deepEqual(unknown, []);
};

const every_template_has_words_for_all_that_is_filled_in = async () => {
  const namesOf = (text) => Array.from(text.matchAll(/\{(\w+)\}/g), ([, name]) => name).sort();
  const tables = [refusals.said, ...Object.values(refusals.parts)];
  for (const table of tables) {
    for (const [said, words] of Object.entries(table)) {
      // A path is said so, with its braces.
      assert.deepEqual(namesOf(words), namesOf(said.replaceAll("/{name}", "")), said);
    }
  }
  for (const words of [...Object.values(refusals.kinds), ...Object.values(refusals.said)]) assert.match(words, hangul);
};

const what_is_not_known_is_told_behind_the_words_of_its_kind = async () => {
  const quota = told("the moon is in the way", "quota-exceeded");
  assert.ok(quota.startsWith(refusals.kinds["quota-exceeded"]) && quota.endsWith("The moon is in the way."), quota);
  // A part that nobody knows makes the whole unknown: no half of it in each language.
  for (const said of ["write a poem", 'there is no dragon named "x"', "is more gold than is left of the quota: nothing of 4"]) {
    assert.ok(told(said).startsWith(refusals.kinds.invalid), said);
    assert.ok(told(said).includes(said.slice(1)), said);
  }
  for (const kind of ["", "toString", "of-a-later-api"]) {
    assert.ok(told("no", kind).startsWith(refusals.other), kind);
  }
  assert.ok(told("toString").startsWith(refusals.kinds.invalid));
};

const a_refusal_of_fields_is_told_field_by_field = async () => {
  const disk = { field: "disk", message: "write a size such as 20Gi, at least 1Gi" };
  const name = { field: "name", message: "is odd" };
  const all = { field: "", message: "the quota does not allow so many VMs (5): delete one, or ask an administrator for more" };
  const of = (detail, ...errors) => problemText({ kind: "invalid", detail, errors }, refusals);
  assert.equal(of(`disk: ${disk.message}`, disk), `disk: ${told(disk.message)}`);
  const both = of(`2 fields need another value: disk, name; ${all.message}`, disk, name, all);
  for (const part of [told(disk.message), "name: ", "Is odd.", told(all.message)]) assert.ok(both.includes(part), both);
  const invite = { field: "invite", message: "has expired: ask for another" };
  assert.ok(of(`the invite ${invite.message}`, invite).includes("만료된 초대"));
  // What says more than its fields do is told whole.
  const more = of(`disk: ${disk.message}; and it is late`, disk);
  assert.ok(more.includes("and it is late"), more);
};

const the_language_of_the_api_is_told_as_it_is = async () => {
  const refusal = { kind: "invalid", detail: "cpu: write a whole number from 1 to 256", errors: [] };
  assert.equal(problemText(refusal, undefined), "Cpu: write a whole number from 1 to 256.");
};

export default {
  what_is_known_is_told_with_its_values,
  each_answer_to_bad_input_is_known,
  every_template_has_words_for_all_that_is_filled_in,
  what_is_not_known_is_told_behind_the_words_of_its_kind,
  a_refusal_of_fields_is_told_field_by_field,
  the_language_of_the_api_is_told_as_it_is,
};

// How VMs are judged, without a browser.

import assert from "node:assert/strict";
import { runnerImport } from "vite";

const source = new URL("../src/lib/", import.meta.url).pathname;
const load = async (file) => (await runnerImport(`${source}${file}`, { configFile: false })).module;
const { asOfOwner, endOf, keptOff, reachOf, sshCommandOf, standings, stepsDone, vmState } = await load("vm.ts");
const { sum } = await load("sizes.ts");

const MINUTE = 60_000;
const START = Date.parse("2026-01-01T12:00:00Z");
const HOUR_AGO = new Date(START - 60 * MINUTE).toISOString();

let count = 0;
/** A VM of its own, which no other test has looked at. */
const vmOf = (phase, conditions, rest = {}) => ({
  uid: `vm-${(count += 1)}`,
  powerState: "On",
  startOnConnect: false,
  deleting: false,
  ...rest,
  status: {
    phase,
    idle: false,
    ...rest.status,
    conditions: conditions.map(([type, status, reason, lastTransitionTime = HOUR_AGO]) => ({
      type,
      status,
      reason,
      message: reason,
      lastTransitionTime,
    })),
  },
});
/** The same VM with other conditions. */
const next = (vm, phase, conditions) => ({ ...vmOf(phase, conditions), uid: vm.uid });
/** Looks at a VM every minute, as a page that is open does. */
const watch = (vm, from, minutes) => {
  for (let minute = 0; minute <= minutes; minute += 1) standings(vm, from + minute * MINUTE);
  return from + minutes * MINUTE;
};
const machine = (status, reason) => [
  ["Ready", status, reason],
  ["VirtualMachineReady", status, reason],
];

const an_image_that_failed_is_not_on_its_way = async () => {
  const waits = vmOf("Pending", [["Ready", "False", "ImageNotReady"], ["ImageReady", "False", "ImageNotReady"]]);
  assert.equal(vmState(waits, START).label, "state.pending");
  const stuck = vmOf("Pending", [["Ready", "False", "ImageFailed"], ["ImageReady", "False", "ImageFailed"]]);
  assert.deepEqual([vmState(stuck, START).label, reachOf(stuck, START)], ["state.failed", "stuck"]);
};

const a_reason_has_its_time_from_when_it_was_seen_first = async () => {
  const full = vmOf("Failed", machine("False", "Unschedulable"));
  let now = watch(full, START, 60);
  assert.equal(vmState(full, now).label, "state.failed");
  // No transition: the status is what it was.
  const starts = next(full, "Starting", machine("False", "Starting"));
  assert.equal(vmState(starts, now).label, "state.starting");
  now = watch(starts, now, 15);
  assert.equal(vmState(starts, now).label, "state.starting");
  now = watch(starts, now, 1);
  assert.deepEqual([vmState(starts, now).label, reachOf(starts, now)], ["state.failed", "stuck"]);
  // It has begun again.
  watch(full, now, 0);
  assert.equal(vmState(starts, now).label, "state.starting");
};

const what_was_not_looked_at_may_have_been_something_else = async () => {
  const vm = vmOf("Starting", machine("False", "Starting"));
  let now = watch(vm, START, 14) + 30 * MINUTE;
  assert.equal(vmState(vm, now).tone, "busy");
  now = watch(vm, now, 16);
  assert.equal(vmState(vm, now).tone, "warn");
};

const what_waits_for_what_is_wrong_has_its_time_afterwards = async () => {
  const waiting = [
    ["DiskReady", "False", "NotMade"],
    ["Exposed", "False", "DomainNotReserved"],
  ];
  const taken = vmOf("Pending", [["Ready", "False", "DomainTaken"], ["Reserved", "False", "DomainTaken"], ...waiting]);
  const now = watch(taken, START, 60);
  const tones = (vm, now) => Object.fromEntries(standings(vm, now));
  assert.deepEqual(tones(taken, now), { Ready: "warn", Reserved: "warn", DiskReady: "busy", Exposed: "busy" });
  const free = next(taken, "Provisioning", [["Ready", "False", "NotMade"], ["Reserved", "True", "Reserved"], ...waiting]);
  assert.deepEqual(tones(free, now), { Ready: "busy", Reserved: "good", DiskReady: "busy", Exposed: "busy" });
  assert.deepEqual(tones(free, watch(free, now, 16)), { Ready: "warn", Reserved: "good", DiskReady: "warn", Exposed: "warn" });
};

const that_nobody_can_log_in_is_a_warning_and_holds_nothing_up = async () => {
  const vm = vmOf("Provisioning", [["Accessible", "False", "NoCredentials"], ["DiskReady", "False", "NotMade"]]);
  const tones = (now) => Object.fromEntries(standings(vm, now));
  assert.deepEqual(tones(START), { Accessible: "warn", DiskReady: "busy" });
  assert.deepEqual(tones(watch(vm, START, 16)), { Accessible: "warn", DiskReady: "warn" });
};

const a_size_above_the_quota_is_in_nobodys_way = async () => {
  for (const reason of ["QuotaExceeded", "QuotaUnknown"]) {
    for (const phase of ["Running", "Migrating"]) assert.equal(reachOf(vmOf(phase, machine("False", reason)), START), "now");
    assert.equal(reachOf(vmOf("Failed", machine("False", reason)), START), "stuck");
  }
};

const a_vm_that_is_kept_off_does_not_start = async () => {
  const suspended = vmOf("Stopped", [["Ready", "False", "Suspended"]], { startOnConnect: true });
  assert.deepEqual(
    [vmState(suspended, START), reachOf(suspended, START), stepsDone(suspended)],
    [{ tone: "warn", label: "state.suspended", cause: suspended.status.conditions[0] }, "stuck", undefined],
  );
  assert.equal(keptOff(suspended, START)?.reason, "Suspended");
  // While it goes off it is neither almost ready nor started.
  assert.equal(vmState({ ...suspended, status: { ...suspended.status, phase: "Running" } }, START).label, "state.stopping");
  const idle = vmOf("Stopped", [["Ready", "False", "Idle"], ["Idle", "True", "Idle"]], { status: { idle: true } });
  assert.deepEqual([...standings(idle, START).values()], ["off", "off"]);
  assert.deepEqual([vmState(idle, START).label, reachOf(idle, START)], ["state.idle", "login"]);
};

/** A VM that has expired, as the controller tells it: `Ready` says so, or only that it
 * is off; and one of which nothing was made. */
const expired = (rest = {}) => [
  vmOf("Stopped", [["Ready", "False", "Expired"], ["VirtualMachineReady", "True", "Stopped"], ["Expired", "True", "Expired"]], rest),
  vmOf("Stopped", [["Ready", "True", "Stopped"], ["VirtualMachineReady", "True", "Stopped"], ["Expired", "True", "Expired"]], {
    ...rest,
    powerState: "Off",
  }),
  vmOf("Failed", [["Ready", "False", "Expired"], ["VirtualMachineReady", "False", "Expired"], ["Expired", "True", "Expired"]], rest),
];

const an_expired_vm_is_as_bad_everywhere = async () => {
  for (const vm of expired({ status: { upToDate: true }, startOnConnect: true })) {
    const { tone, label, cause } = vmState(vm, START);
    assert.deepEqual([tone, label, cause.reason], ["bad", "state.expired", "Expired"]);
    assert.equal(reachOf(vm, START), "stuck");
    assert.equal(keptOff(vm, START)?.reason, "Expired");
    assert.equal(stepsDone(vm), undefined);
    const tones = standings(vm, START);
    for (const { type, reason } of vm.status.conditions) {
      if (reason === "Expired") assert.equal(tones.get(type), "bad", type);
    }
  }
  const [soon] = [vmOf("Running", [["Ready", "True", "Running"], ["Expired", "False", "ExpiresSoon"]])];
  assert.deepEqual([standings(soon, START).get("Expired"), vmState(soon, START).tone], ["warn", "good"]);
};

const a_later_end_counts_before_the_controller_has_seen_it = async () => {
  const at = (hours) => ({ expiresAt: new Date(START + hours * 60 * MINUTE).toISOString(), status: { upToDate: false } });
  for (const vm of expired(at(-1))) assert.equal(endOf(vm, START)?.reason, "Expired");
  for (const vm of [...expired(at(1)), ...expired({ status: { upToDate: false } })]) {
    assert.deepEqual([endOf(vm, START), keptOff(vm, START)], [undefined, undefined]);
  }
  for (const vm of expired({ deleting: true, status: { upToDate: true } })) assert.equal(endOf(vm, START), undefined);
};

const what_makes_a_vm_fail_is_as_bad_as_that = async () => {
  const full = vmOf("Failed", [...machine("False", "Unschedulable"), ["Exposed", "False", "NoBaseDomain"]]);
  assert.deepEqual(Object.fromEntries(standings(full, START)), { Ready: "bad", VirtualMachineReady: "bad", Exposed: "warn" });
  assert.equal(vmState(full, START).tone, "bad");
};

const a_vm_that_opens_to_nobody_is_no_good_news = async () => {
  for (const ready of ["True", "False"]) {
    const vm = vmOf("Running", [
      ["Ready", ready, ready === "True" ? "Running" : "NoCredentials"],
      ["VirtualMachineReady", "True", "Running"],
      ["Accessible", "False", "NoCredentials"],
    ]);
    const { tone, label, cause } = vmState(vm, START);
    assert.deepEqual([tone, label, cause.reason], ["warn", "state.noCredentials", "NoCredentials"]);
    assert.deepEqual([reachOf(vm, START), standings(vm, START).get("Accessible")], ["consoles", "warn"]);
  }
};

const no_login_starts_what_opens_to_nobody = async () => {
  const lack = ["Accessible", "False", "NoCredentials"];
  const up = ["VirtualMachineReady", "True", "Running"];
  for (const phase of ["Running", "Migrating"]) {
    for (const machine of [up, ["VirtualMachineReady", "False", "QuotaExceeded"]]) {
      assert.equal(reachOf(vmOf(phase, [["Ready", machine[1], machine[2]], machine, lack]), START), "consoles");
    }
  }
  const off = [["Ready", "True", "Stopped"], ["VirtualMachineReady", "True", "Stopped"], lack];
  for (const startOnConnect of [true, false]) {
    assert.equal(reachOf(vmOf("Stopped", off, { startOnConnect, powerState: "Off" }), START), "consolesOff");
  }
  const idle = [["Ready", "False", "Idle"], ["Idle", "True", "Idle"], lack];
  assert.equal(reachOf(vmOf("Stopped", idle, { status: { idle: true } }), START), "consolesOff");
  assert.equal(reachOf(vmOf("Stopped", off), START), "soon");
};

const a_vm_of_a_suspended_account_does_not_start_however_it_is_off = async () => {
  const off = vmOf("Stopped", [["Ready", "True", "Stopped"], ["VirtualMachineReady", "True", "Stopped"]], { powerState: "Off", startOnConnect: true });
  assert.equal(asOfOwner(off), off);
  assert.deepEqual([keptOff(off, START), reachOf(off, START)], [undefined, "login"]);
  const held = asOfOwner({ ...off, ownerSuspended: true });
  assert.deepEqual([keptOff(held, START)?.reason, reachOf(held, START)], ["Suspended", "stuck"]);
  const { tone, label } = vmState(held, START);
  assert.deepEqual([tone, label, held.status.conditions.length], ["warn", "state.suspended", 2]);
  // What is said of others by the controller stays.
  for (const other of [vmOf("Running", machine("True", "Running")), { ...off, deleting: true }, vmOf("Stopping", machine("False", "Stopping"), { powerState: "Off" })]) {
    const vm = { ...other, ownerSuspended: true };
    assert.equal(asOfOwner(vm), vm);
  }
};

const a_login_starts_only_what_is_off = async () => {
  const stopping = machine("False", "Restarting");
  const startOnConnect = true;
  assert.equal(reachOf(vmOf("Stopping", stopping, { startOnConnect }), START), "soon");
  assert.equal(reachOf(vmOf("Stopping", stopping, { startOnConnect, powerState: "Off" }), START), "stopping");
  assert.equal(reachOf(vmOf("Stopped", machine("True", "Stopped"), { startOnConnect, powerState: "Off" }), START), "login");
};

const a_gateway_that_was_given_an_address_is_named = async () => {
  const vm = (reserved, phase = "Running", rest = {}) => vmOf(phase, [["Reserved", ...reserved]], { sshId: "web-1", ...rest });
  const gateway = { host: "192.0.2.7", port: 22, hostKeys: [] };
  const mine = ["True", "Reserved"];
  assert.equal(sshCommandOf(vm(mine), gateway), "ssh web-1@192.0.2.7");
  assert.equal(sshCommandOf(vm(["False", "DomainTaken"]), { ...gateway, port: 30022 }), "ssh -p 30022 web-1@192.0.2.7");
  assert.equal(sshCommandOf(vm(mine, "Running", { status: { sshCommand: "ssh it" } }), gateway), "ssh it");
  for (const [it, where] of [
    [vm(mine), undefined],
    [vm(mine), { port: 22, hostKeys: [] }],
    [vm(["False", "SshIdTaken"]), gateway],
    [vm(mine, "Provisioning"), gateway],
  ]) {
    assert.equal(sshCommandOf(it, where), undefined);
  }
};

const what_an_older_api_leaves_out_is_counted_all_the_same = async () => {
  const charge = { cpu: 1, memory: 2 ** 30, disk: 2 ** 30 };
  const vms = [{ cpu: 8, memory: "8Gi", disk: "80Gi", charge }, { cpu: 2, memory: "1Gi", disk: "9Gi" }];
  assert.deepEqual(sum(vms), { vms: 2, cpu: 3, memory: 2 * 2 ** 30, disk: 10 * 2 ** 30 });
};

export default {
  a_reason_has_its_time_from_when_it_was_seen_first,
  what_was_not_looked_at_may_have_been_something_else,
  what_waits_for_what_is_wrong_has_its_time_afterwards,
  that_nobody_can_log_in_is_a_warning_and_holds_nothing_up,
  a_size_above_the_quota_is_in_nobodys_way,
  a_vm_that_is_kept_off_does_not_start,
  an_expired_vm_is_as_bad_everywhere,
  a_later_end_counts_before_the_controller_has_seen_it,
  what_makes_a_vm_fail_is_as_bad_as_that,
  a_vm_that_opens_to_nobody_is_no_good_news,
  no_login_starts_what_opens_to_nobody,
  a_vm_of_a_suspended_account_does_not_start_however_it_is_off,
  a_login_starts_only_what_is_off,
  a_gateway_that_was_given_an_address_is_named,
  what_an_older_api_leaves_out_is_counted_all_the_same,
  an_image_that_failed_is_not_on_its_way,
};

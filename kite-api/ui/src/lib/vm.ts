// How a VM does, in plain words.

import type { Tone } from "../components/Notice";
import type { Condition, Config, Vm } from "../api/types";
import type { Key } from "../i18n";
import { forget, hangs } from "./patience";

export interface VmState {
  tone: Tone;
  label: Key;
  /** The condition that says why. */
  cause?: Condition;
}

export function condition(vm: Vm, type: string): Condition | undefined {
  return vm.status.conditions.find((condition) => condition.type === type);
}

/** Reason of conditions of a VM that opens to nobody. */
const NO_CREDENTIALS = "NoCredentials";

/** What says that a VM has no password and no key, or not what its logins take. */
export const lackOfCredentials = (vm: Vm): Condition | undefined =>
  vm.status.conditions.find(({ type, reason }) => reason === NO_CREDENTIALS && type !== "Ready") ??
  vm.status.conditions.find(({ reason }) => reason === NO_CREDENTIALS);

/** Conditions that are good news while they do not hold. */
const WARNINGS = new Set(["RestartRequired", "Expired", "Idle"]);

/** Reasons of what has begun and passes by itself. */
const UNDER_WAY = new Set([
  "Reserving",
  "Waiting",
  "WaitingForNamespace",
  "WaitingForQuota",
  "WaitingForDeletion",
  "ImageNotReady",
  "NotMade",
  "Cloning",
  "DiskNotReady",
  "Starting",
  "WaitingForVolumeBinding",
  "WaitingForReceiver",
  "Restarting",
  "Stopping",
  "Deleting",
  "DomainNotReserved",
  "NotTakenUp",
  "NotClaimed",
  "OfferNotFree",
  "Copying",
  "Switching",
]);

/** Those of them that wait for what another condition tells of: while that one is wrong,
 * it is what somebody should look at. */
const DEPENDENT = new Set(["Waiting", "NotMade", "DiskNotReady", "DomainNotReserved"]);

/** Reasons of what stays as it is, and is no fault. */
const AT_REST = new Set([
  "WaitingForStart",
  "NoAddress",
  "UnknownStatus",
  "Idle",
  "Scheduled",
  "ScheduleWaits",
  "AttachedAtNextStart",
]);

/** What nothing else waits for. */
const APART = new Set([...WARNINGS, "Exposed", "Accessible", "Restored", "SnapshotsScheduled"]);
const isApart = (type: string) => APART.has(type);

/** Why a VM is off though its owner wants it on: reasons of `Ready`. */
type Hold = "Suspended" | "Expired" | "Idle";

/** What says that the VM's time is over; nothing once somebody has set a later end, also
 * while the controller has not seen that yet. */
export function endOf(vm: Vm, now = Date.now()): Condition | undefined {
  if (vm.deleting) return undefined;
  const { conditions, upToDate } = vm.status;
  const expired = conditions.find(({ type, status }) => type === "Expired" && status === "True");
  const says = expired ?? conditions.find(({ status, reason }) => status === "False" && reason === "Expired");
  if (says === undefined || upToDate) return says;
  return vm.expiresAt !== undefined && Date.parse(vm.expiresAt) <= now ? says : undefined;
}

/** What says that the VM's time is over soon. */
export const endingSoon = (vm: Vm): Condition | undefined =>
  vm.deleting ? undefined : vm.status.conditions.find(({ reason }) => reason === "ExpiresSoon");

/** What says that the VM is off and stays so whatever its power state is: starting it does
 * nothing, and stopping it neither. */
export function keptOff(vm: Vm, now = Date.now()): Condition | undefined {
  if (hasMachine(vm)) return undefined;
  const ready = condition(vm, "Ready");
  return endOf(vm, now) ?? (ready?.status !== "True" && ready?.reason === "Suspended" ? ready : undefined);
}

function holdOf(vm: Vm): Hold | undefined {
  const ready = condition(vm, "Ready");
  if (ready?.status === "True") return undefined;
  const reason = ready?.reason;
  return reason === "Suspended" || reason === "Expired" || reason === "Idle" ? reason : undefined;
}

/** How the conditions of a VM stand, by their types: every part of the page that speaks
 * of one goes by this. */
export function standings(vm: Vm, now = Date.now()): ReadonlyMap<string, Tone> {
  const { conditions } = vm.status;
  const isDependent = ({ status, reason }: Condition) => status !== "True" && DEPENDENT.has(reason);
  const tones = new Map<string, Tone>();
  const judge = (condition: Condition) => tones.set(condition.type, standing(vm.uid, condition, now));
  const [waiting, others] = [conditions.filter(isDependent), conditions.filter((it) => !isDependent(it))];
  others.forEach(judge);
  const isHeldUp = others.some(({ type }) => !isApart(type) && isWrong(tones.get(type)));
  for (const condition of waiting) {
    if (!isHeldUp) {
      judge(condition);
      continue;
    }
    // It has its time once it can go on.
    forget(vm.uid, condition.type);
    tones.set(condition.type, "busy");
  }
  // What has made it fail is as bad as that.
  const cause = vm.status.phase === "Failed" ? condition(vm, "Ready")?.reason : undefined;
  for (const { type, reason } of conditions) {
    if (reason === cause && tones.get(type) === "warn") tones.set(type, "bad");
  }
  return tones;
}

/** Whether somebody should look. */
export const isWrong = (tone: Tone | undefined): boolean => tone === "warn" || tone === "bad";

function standing(uid: string, condition: Condition, now: number): Tone {
  const { type, status, reason } = condition;
  const isUnderWay = !WARNINGS.has(type) && status !== "True" && UNDER_WAY.has(reason);
  if (isUnderWay) return hangs(uid, condition, now) ? "warn" : "busy";
  forget(uid, type);
  if (reason === NO_CREDENTIALS || reason === "ExpiresSoon") return "warn";
  if (WARNINGS.has(type) && status !== "True") return "good";
  if (!WARNINGS.has(type) && status === "True") return "good";
  // What is on the disk is going to be lost.
  if (reason === "Expired") return "bad";
  return AT_REST.has(reason) ? "off" : "warn";
}

/** The state in a word, and what holds it up. */
export function vmState(vm: Vm, now = Date.now()): VmState {
  const { status } = vm;
  const ready = condition(vm, "Ready");
  const isReady = ready?.status === "True";
  const because = ready && !isReady ? { cause: ready } : {};
  // What is on its way, unless it does not come on.
  const onItsWay = (label: Key): VmState => {
    const isStuck = isWrong(standings(vm, now).get("Ready"));
    return isStuck ? { tone: "warn", label: "state.failed", ...because } : { tone: "busy", label, ...because };
  };
  if (vm.deleting || status.phase === "Deleting") return { tone: "busy", label: "state.deleting" };
  if (!status.phase) return { tone: "busy", label: "state.new" };
  const wanted = vm.powerState === "On";
  const hold = holdOf(vm);
  const end = endOf(vm, now);
  if (end !== undefined && !hasMachine(vm)) return { tone: "bad", label: "state.expired", cause: end };
  switch (status.phase) {
    case "Running": {
      if (!wanted || end !== undefined || hold !== undefined) return { tone: "busy", label: "state.stopping" };
      const lack = lackOfCredentials(vm);
      if (lack !== undefined) return { tone: "warn", label: "state.noCredentials", cause: lack };
      return isReady ? { tone: "good", label: "state.running" } : onItsWay("state.notReady");
    }
    case "Stopped":
      if (hold === "Suspended") return { tone: "warn", label: "state.suspended", ...because };
      if (status.idle) return { tone: "off", label: "state.idle" };
      return wanted ? { tone: "busy", label: "state.starting" } : { tone: "off", label: "state.off" };
    case "Pending":
      return onItsWay("state.pending");
    case "Provisioning":
      return onItsWay("state.provisioning");
    case "Starting":
      return onItsWay("state.starting");
    case "Migrating":
      return { tone: "busy", label: "state.migrating" };
    case "Paused":
      return { tone: "warn", label: "state.paused", ...because };
    case "Stopping":
      return { tone: "busy", label: "state.stopping" };
    case "Failed":
      return { tone: "bad", label: "state.failed", ...because };
  }
}

/** Whether somebody can log in, in a word, by what the timeline goes by, too. */
export type Reach = "now" | "consoles" | "soon" | "stopping" | "login" | "off" | "consolesOff" | "stuck" | "deleting";

/** What a larger size waits for: the machine runs with the one that it has. */
const SIZE_REASONS = new Set(["QuotaExceeded", "QuotaUnknown"]);

export function reachOf(vm: Vm, now = Date.now()): Reach {
  const { tone } = vmState(vm, now);
  const { phase } = vm.status;
  if (vm.deleting) return "deleting";
  if (phase === undefined) return "soon";
  const wanted = vm.powerState === "On";
  switch (phase) {
    case "Deleting":
      return "deleting";
    case "Running":
    case "Migrating": {
      // Not all that is wrong with a VM is in the way of who logs in.
      if (!wanted || endOf(vm, now) !== undefined || holdOf(vm) !== undefined) return "stopping";
      const machine = condition(vm, "VirtualMachineReady");
      const isUp = machine?.status === "True" || SIZE_REASONS.has(machine?.reason ?? "");
      if (isUp) return lackOfCredentials(vm) === undefined ? "now" : "consoles";
      return tone === "busy" ? "soon" : "stuck";
    }
    case "Stopping":
      // Between two runs, or for good.
      return wanted && holdOf(vm) === undefined ? "soon" : "stopping";
    case "Stopped":
      if (isWrong(tone)) return "stuck";
      // No login starts what lets nobody in.
      if (lackOfCredentials(vm) !== undefined && !isWanted(vm)) return "consolesOff";
      if (vm.startOnConnect || vm.status.idle) return "login";
      return wanted ? "soon" : "off";
    case "Pending":
    case "Provisioning":
    case "Starting":
    case "Paused":
    case "Failed":
      return tone === "busy" ? "soon" : "stuck";
  }
}

export const isRunning = (vm: Vm): boolean =>
  !vm.deleting && (vm.status.phase === "Running" || vm.status.phase === "Migrating" || vm.status.phase === "Paused");

/** Whether nodes give it CPUs and memory now, or are about to. */
export const hasMachine = (vm: Vm): boolean => {
  switch (vm.status.phase) {
    case "Starting":
    case "Running":
    case "Migrating":
    case "Paused":
    case "Stopping":
      return true;
    default:
      return false;
  }
};

/** Whether its login name is its own: a web address that somebody else has is nothing to
 * those who log in. */
export function isNamed(vm: Vm): boolean {
  const reserved = condition(vm, "Reserved");
  return reserved?.status === "True" || ["DomainTaken", "DomainKept", "DomainReserved"].includes(reserved?.reason ?? "");
}

/** The command that logs in: as the controller says, who goes by what the gateway is to be
 * called, or by the address that the gateway was given. */
export function sshCommandOf(vm: Vm, gateway: Config["gateway"]): string | undefined {
  if (vm.status.sshCommand !== undefined) return vm.status.sshCommand;
  const { host, port } = gateway ?? {};
  const isMade = hasMachine(vm) || vm.status.phase === "Stopped";
  if (!isMade || !isNamed(vm) || host === undefined || port === undefined) return undefined;
  return port === 22 ? `ssh ${vm.sshId}@${host}` : `ssh -p ${port} ${vm.sshId}@${host}`;
}

/** A VM as it stands, as its owner may be suspended: the controller does not tell of that
 * where the VM is switched off anyway. */
export function asOfOwner(vm: Vm): Vm {
  if (vm.ownerSuspended !== true || vm.deleting || vm.powerState === "On" || hasMachine(vm)) return vm;
  const { conditions } = vm.status;
  const lastTransitionTime = condition(vm, "Ready")?.lastTransitionTime ?? vm.createdAt ?? new Date().toISOString();
  const message = "the account of its owner is suspended by an administrator";
  const ready: Condition = { type: "Ready", status: "False", reason: "Suspended", message, lastTransitionTime };
  return { ...vm, status: { ...vm.status, conditions: [ready, ...conditions.filter(({ type }) => type !== "Ready")] } };
}

/** Whether it is asked to be on: then it can be stopped, else started. */
export const isWanted = (vm: Vm): boolean => vm.powerState === "On" && !vm.status.idle;

/** The way to a running VM. */
export const STEPS = ["names", "disk", "boot", "ready"] as const;

/** How many of the steps are behind it; undefined when it is not on its way. */
export function stepsDone(vm: Vm): number | undefined {
  if (vm.deleting || !isWanted(vm) || holdOf(vm) !== undefined || endOf(vm) !== undefined) return undefined;
  switch (vm.status.phase) {
    case undefined:
      return 0;
    case "Pending":
      return condition(vm, "Reserved")?.status === "True" ? 1 : 0;
    case "Provisioning":
      return 1;
    case "Starting":
    case "Stopped":
      return 2;
    case "Running":
      return condition(vm, "Ready")?.status === "True" ? undefined : 3;
    default:
      return undefined;
  }
}

/** The page of a VM; another account's is told apart by its owner. */
export function vmPath(vm: { name: string; owner: string }, me: string): string {
  const name = encodeURIComponent(vm.name);
  return vm.owner === me ? `/vms/${name}` : `/users/${encodeURIComponent(vm.owner)}/vms/${name}`;
}

/** Its settings, at the field of this name. */
export const settingPath = (vm: { name: string; owner: string }, me: string, field: string): string =>
  `${vmPath(vm, me)}?tab=settings&at=${field}`;

/** The volumes that a VM is to have. An older API tells of none. */
export const volumesOf = (vm: Vm): Vm["volumes"] => (vm.volumes as Vm["volumes"] | undefined) ?? [];

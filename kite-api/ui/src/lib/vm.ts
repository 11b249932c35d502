// How a VM does, in plain words.

import type { Tone } from "../components/Notice";
import type { Condition, Vm } from "../api/types";
import type { Key } from "../i18n";

export interface VmState {
  tone: Tone;
  label: Key;
  /** What the controller says about it. */
  detail?: string;
}

export function condition(vm: Vm, type: string): Condition | undefined {
  return vm.status.conditions.find((condition) => condition.type === type);
}

/** The state in a word, and what holds it up. */
export function vmState(vm: Vm): VmState {
  const { status } = vm;
  const ready = condition(vm, "Ready");
  const detail = ready && ready.status !== "True" ? { detail: ready.message } : {};
  if (vm.deleting || status.phase === "Deleting") return { tone: "busy", label: "state.deleting" };
  if (!status.phase) return { tone: "busy", label: "state.new" };
  const wanted = vm.powerState === "On";
  switch (status.phase) {
    case "Running":
      if (!wanted) return { tone: "busy", label: "state.stopping" };
      return ready?.status === "True"
        ? { tone: "good", label: "state.running" }
        : { tone: "busy", label: "state.notReady", ...detail };
    case "Stopped":
      if (condition(vm, "Expired")?.status === "True") return { tone: "warn", label: "state.expired", ...detail };
      if (status.idle) return { tone: "off", label: "state.idle" };
      return wanted ? { tone: "busy", label: "state.starting" } : { tone: "off", label: "state.off" };
    case "Pending":
      return { tone: ready?.status === "False" ? "warn" : "busy", label: "state.pending", ...detail };
    case "Provisioning":
      return { tone: "busy", label: "state.provisioning", ...detail };
    case "Starting":
      return { tone: "busy", label: "state.starting", ...detail };
    case "Migrating":
      return { tone: "busy", label: "state.migrating" };
    case "Paused":
      return { tone: "warn", label: "state.paused", ...detail };
    case "Stopping":
      return { tone: "busy", label: "state.stopping" };
    case "Failed":
      return { tone: "bad", label: "state.failed", ...detail };
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

/** Whether it is asked to be on: then it can be stopped, else started. */
export const isWanted = (vm: Vm): boolean => vm.powerState === "On" && !vm.status.idle;

/** The way to a running VM. */
export const STEPS = ["names", "disk", "boot", "ready"] as const;

/** How many of the steps are behind it; undefined when it is not on its way. */
export function stepsDone(vm: Vm): number | undefined {
  if (vm.deleting || !isWanted(vm)) return undefined;
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

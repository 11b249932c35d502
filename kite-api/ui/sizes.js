// Sizes and what is left of the quota.

import { app } from "./page.js";

const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/** Bytes of a size such as 20Gi. */
export function bytes(size) {
  const [, number, unit] = /^([\d.]+)([A-Za-z]*)$/.exec(size) || [];
  return Number(number) * (UNITS[unit] || 1);
}

export const gib = (value) => (value / UNITS.Gi).toLocaleString("en", { maximumFractionDigits: 1 });
export const sizeText = (size) => size.replace(/(\d)([KMGT])i$/, "$1 $2iB").replace(/(\d)([kMGT])$/, "$1 $2B");

/** What the account's VMs ask for together, beside the quota. */
export function usage() {
  const sum = (of) => app.vms.reduce((total, vm) => total + of(vm), 0);
  const quota = app.me.quota;
  return {
    vms: { used: app.vms.length, most: quota.vms },
    cpu: { used: sum((vm) => vm.cpu), most: quota.cpu },
    memory: { used: sum((vm) => bytes(vm.memory)), most: bytes(quota.memory) },
    disk: { used: sum((vm) => bytes(vm.disk)), most: bytes(quota.disk) },
  };
}

export const SIZES = [
  { id: "small", label: "Small", cpu: 1, memory: "1Gi", disk: "10Gi" },
  { id: "medium", label: "Medium", cpu: 2, memory: "4Gi", disk: "20Gi" },
  { id: "large", label: "Large", cpu: 4, memory: "8Gi", disk: "50Gi" },
];

/** Whether a size is within what is left of the quota. */
export function fits(size) {
  const { vms, cpu, memory, disk } = usage();
  return (
    vms.used < vms.most &&
    cpu.used + size.cpu <= cpu.most &&
    memory.used + bytes(size.memory) <= memory.most &&
    disk.used + bytes(size.disk) <= disk.most
  );
}

// Quantities as Kubernetes writes them (`4Gi`), and sizes to choose from.

const UNITS: Record<string, number> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

export const GIB = 2 ** 30;

/** Bytes of a quantity; NaN of what is none. */
export function bytes(quantity: string | number): number {
  if (typeof quantity === "number") return quantity;
  const match = /^([0-9.]+)([A-Za-z]*)$/.exec(quantity.trim());
  const unit = UNITS[match?.[2] ?? "?"];
  return match && unit !== undefined ? Number(match[1]) * unit : Number.NaN;
}

const shortest = (value: number) => String(Number(value.toFixed(value < 10 ? 1 : 0)));

/** `4 GiB`. */
export function sizeText(quantity: string | number): string {
  const size = bytes(quantity);
  if (Number.isNaN(size)) return String(quantity);
  if (size === 0) return "0 GiB";
  if (size >= 2 ** 40) return `${shortest(size / 2 ** 40)} TiB`;
  if (size >= GIB) return `${shortest(size / GIB)} GiB`;
  return `${shortest(size / 2 ** 20)} MiB`;
}

/** The smallest disk that can be made from an image: what is in it has to fit, whatever
 * its `minDisk` says. */
export function leastDisk({ minDisk, size }: { minDisk: string; size?: string | undefined }): string {
  return size !== undefined && bytes(size) > bytes(minDisk) ? size : minDisk;
}

export interface Size {
  id: "small" | "medium" | "large" | "xlarge";
  cpu: number;
  memory: string;
  disk: string;
}

export const SIZES: readonly Size[] = [
  { id: "small", cpu: 1, memory: "1Gi", disk: "10Gi" },
  { id: "medium", cpu: 2, memory: "4Gi", disk: "20Gi" },
  { id: "large", cpu: 4, memory: "8Gi", disk: "40Gi" },
  { id: "xlarge", cpu: 8, memory: "16Gi", disk: "80Gi" },
];

/** What quotas count. */
export interface Amounts {
  vms: number;
  cpu: number;
  memory: number;
  disk: number;
}

/** What is left of a quota. */
export function remaining(
  quota: { vms: number; cpu: number; memory: string; disk: string },
  used: Amounts,
): Amounts {
  return {
    vms: quota.vms - used.vms,
    cpu: quota.cpu - used.cpu,
    memory: bytes(quota.memory) - used.memory,
    disk: bytes(quota.disk) - used.disk,
  };
}

interface Charged {
  cpu: number;
  memory: string | number;
  disk: string | number;
  /** Absent in what an API says that is about to be replaced. */
  charge?: { cpu: number; memory: number; disk: number };
}

/** Sums up VMs, as quotas count them: what they have, and not what they ask for in vain. */
export function sum(vms: readonly Charged[]): Amounts {
  const total: Amounts = { vms: vms.length, cpu: 0, memory: 0, disk: 0 };
  for (const vm of vms) {
    const { cpu, memory, disk } = vm.charge ?? vm;
    total.cpu += cpu;
    total.memory += bytes(memory);
    total.disk += bytes(disk);
  }
  return total;
}

/** Whether a size is within what is left. */
export function fits(size: { cpu: number; memory: string; disk: string }, left: Amounts): boolean {
  return left.vms >= 1 && size.cpu <= left.cpu && bytes(size.memory) <= left.memory && bytes(size.disk) <= left.disk;
}

// How snapshots and volumes stand, in a word and a tone.

import type { Condition, Snapshot, Volume } from "../../api/types";
import type { Tone } from "../../components/Notice";
import { sentence } from "../../api/problem";
import { withLocalTimes } from "../../lib/time";

export const SNAPSHOT_TONES: Record<Snapshot["status"]["phase"], Tone> = {
  Pending: "busy",
  Freezing: "busy",
  Cutting: "busy",
  Completing: "busy",
  Ready: "good",
  Lost: "bad",
  Failed: "bad",
  Deleting: "busy",
};

export const VOLUME_TONES: Record<Volume["status"]["phase"], Tone> = {
  Pending: "busy",
  Provisioning: "busy",
  Available: "off",
  Attached: "good",
  Lost: "bad",
  Failed: "bad",
  Deleting: "busy",
};

/** What the controller says of something that is not as it should be. */
export function toldOf({ status }: { status: { conditions: Condition[]; phase: string } }, tag: string): string | undefined {
  const ready = status.conditions.find(({ type }) => type === "Ready");
  if (ready === undefined || ready.status === "True") return undefined;
  return sentence(withLocalTimes(ready.message, tag));
}

/** Whether disks can be made from a snapshot. */
export const isUsable = (it: Snapshot): boolean => it.status.phase === "Ready" && !it.deleting && it.unreadable === undefined;

/** Bytes and the like are the same in whichever order they came. */
export const newestFirst = (snapshots: readonly Snapshot[]): Snapshot[] =>
  [...snapshots].sort((a, b) => (timeOf(a) < timeOf(b) ? 1 : -1));

const timeOf = (it: Snapshot): string => it.status.takenAt ?? it.createdAt ?? "";

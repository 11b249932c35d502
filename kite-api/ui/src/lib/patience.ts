// How long the page has seen a condition give the same reason. A condition tells when its
// status became another, and not when its reason did: a VM that no node had room for an
// hour long is not late when it has just begun to start.

import type { Condition } from "../api/types";

/** How long what passes by itself may take before somebody should look, in milliseconds. */
const PATIENCE_MS = 15 * 60_000;

/** After how long without a look it may have been something else meanwhile, in
 * milliseconds. Browsers look once a minute at what is in the background. */
const GAP_MS = 2 * 60_000;

interface Sight {
  /** Status, reason and the time of the last transition. */
  what: string;
  first: number;
  last: number;
}

/** By VM and type. */
const sights = new Map<string, Map<string, Sight>>();

/** Whether a condition has been the same for too long, as far as the page has seen; to be
 * asked every now and then. It may be so for longer, and never is for less. */
export function hangs(uid: string, condition: Condition, now: number): boolean {
  const { type, status, reason, lastTransitionTime } = condition;
  const what = [status, reason, lastTransitionTime].join();
  const before = sights.get(uid)?.get(type);
  const isSame = before !== undefined && before.what === what && now - before.last <= GAP_MS;
  const sight: Sight = { what, first: isSame ? before.first : now, last: now };
  if (!sights.has(uid)) sights.set(uid, new Map());
  sights.get(uid)?.set(type, sight);
  return now - sight.first > PATIENCE_MS;
}

/** Its time is counted anew. */
export function forget(uid: string, type: string): void {
  const ofVm = sights.get(uid);
  ofVm?.delete(type);
  if (ofVm?.size === 0) sights.delete(uid);
}

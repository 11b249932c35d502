// What a VM's conditions say, in the language of whoever reads them.

import { sentence } from "../api/problem";
import type { Condition, Vm } from "../api/types";
import type { Key, Translate, Values } from "../i18n";
import { en } from "../i18n/en";
import { sizeText } from "./sizes";
import { duration } from "./span";
import { dateTime, relative, withLocalTimes } from "./time";

/** Reasons whose message has what nobody could know otherwise: numbers, the words of
 * others, which object it is. */
const TELLING = new Set([
  "UnknownStatus",
  "OfferUnreadable",
  "UnusableKeys",
  "ChangedWhileRunning",
  "UnknownImage",
  "SnapshotNotReady",
  "ScheduleInvalid",
  "ScheduleSuspended",
  "SnapshotRefused",
  "VolumeBusy",
  "VolumeMissing",
  "VolumeDeleted",
  "VolumeLost",
  "VolumeNotReady",
  "AttachedAtNextStart",
  "OtherImage",
  "SmallerThanSnapshot",
  "SshIdKept",
  "DomainKept",
  "DomainReserved",
  "CloneFailed",
  "CloneBlocked",
  "ImageFailed",
  "DiskWithFault",
  "DataVolumeError",
  "Unschedulable",
  "ImagePull",
  "Paused",
  "PausedIOError",
  "DiskLost",
  "DiskLeaving",
  "DiskUnmanaged",
  "KeysReplaced",
  "ResizeFailed",
  "ResizeWaits",
  "RunningWithFault",
  "StartBlocked",
  "StopBlocked",
  "Growing",
  "GrowthRefused",
  "GrowthFailed",
  "UserMissing",
  "QuotaExceeded",
  "QuotaUnknown",
  "OfferMismatch",
  "CertificateMissing",
  "CloudInit",
  "WaitingForDeletion",
  "NameTaken",
  "Refused",
  "Invalid",
  "Contested",
  "OutdatedCrd",
  "Unreadable",
  "Missing",
  "Failing",
]);

/** Those of them that are faults though what they are of can be used: they say so with a
 * condition that holds. */
const FAULTS = new Set(["DiskUnmanaged", "DiskWithFault", "ResizeFailed", "ResizeWaits", "RunningWithFault"]);

/** Whether what the controller says is to be seen at once: where the page's words leave
 * out what one has to know of something that is wrong. */
export const isTold = ({ reason }: Condition, { isShort }: Explained, isWrong: boolean): boolean =>
  isShort && (isWrong || FAULTS.has(reason));

export interface Explained {
  text: string;
  /** What the controller says, to the letter but for times, where `text` is the page's
   * own. */
  original?: string;
  /** Whether `text` leaves out what one has to know. */
  isShort: boolean;
}

/** What the sentences speak of, as the VM itself tells it: nothing is read out of
 * messages. */
function factsOf(vm: Vm, tag: string, now: number): Record<string, string | undefined> {
  const { expiresAt, idleTimeout, status } = vm;
  return {
    image: vm.image,
    disk: vm.disk && sizeText(vm.disk),
    sshId: vm.sshId,
    prefix: vm.domainPrefix,
    domain: status.domain,
    offer: vm.offer,
    idle: idleTimeout && duration(idleTimeout, tag),
    end: expiresAt && dateTime(expiresAt, tag),
    left: expiresAt && relative(expiresAt, tag, now),
    deletion: status.deleteAt && dateTime(status.deleteAt, tag),
    leftToDeletion: status.deleteAt && relative(status.deleteAt, tag, now),
  };
}

/** The words for a condition: the most exact for which there is all that they speak of. */
function keysOf(vm: Vm, { type, status, reason }: Condition): Key[] {
  const both = reason === "NoCredentials" && vm.sshLogin === "KeyAndPassword" ? [`reason.${reason}.both`] : [];
  const keys = [...both, `reason.${type}.${reason}`, `reason.${reason}`, `reason.${reason}.short`];
  // A Gateway has reasons of its own.
  if (type === "Exposed" && status === "False") keys.push("reason.Exposed.other");
  return keys.filter((key): key is Key => Object.hasOwn(en, key));
}

/** What a condition says: the page's words for its reason, else the controller's. */
export function explain(vm: Vm, condition: Condition, t: Translate, tag: string, now = Date.now()): Explained {
  const original = withLocalTimes(condition.message.trim(), tag);
  const facts = factsOf(vm, tag, now);
  for (const key of keysOf(vm, condition)) {
    const names = Array.from(en[key].matchAll(/\{(\w+)\}/g), ([, name = ""]) => name);
    const values: Values = {};
    for (const name of names) {
      const fact = facts[name];
      if (fact) values[name] = fact;
    }
    if (names.every((name) => Object.hasOwn(values, name))) {
      const isOther = key === "reason.Exposed.other";
      return { text: t(key, values), original, isShort: isOther || TELLING.has(condition.reason) };
    }
  }
  return { text: sentence(original), isShort: false };
}

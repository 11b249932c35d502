// Why a session in a VM ended, in the page's words. Who carried it tells in words of
// English; those of them that are always the same are known here.

import type { Key, Translate } from "../../i18n";
import type { VmSession } from "../../api/types";

export const ENDS: Readonly<Record<string, Key>> = {
  "closed by the user": "vmSessions.why.left",
  "the client left": "vmSessions.why.left",
  "no key exchange in time": "vmSessions.why.late",
  "no login in time": "vmSessions.why.late",
  "gateway shut down": "vmSessions.why.server",
  "the server went down": "vmSessions.why.server",
  "the server is about to end: connect again": "vmSessions.why.server",
  "the server that carried it went away": "vmSessions.why.lost",
  "it is not there any more": "vmSessions.why.lost",
  "the account may not open this console any more": "vmSessions.why.forbidden",
  "the session has ended: sign in again": "vmSessions.why.signedOut",
  "the account is gone": "vmSessions.why.accountGone",
  "the account is suspended": "vmSessions.why.suspended",
  "the VM's owner is gone": "vmSessions.why.ownerGone",
  "the VM is gone": "vmSessions.why.vmGone",
  "the VM was switched off": "vmSessions.why.vmOff",
  "the VM was restarted": "vmSessions.why.vmRestarted",
  "the VM does not run any more": "vmSessions.why.vmOff",
  "nothing was done for too long": "vmSessions.why.idle",
  "the console was open for as long as one may be": "vmSessions.why.longest",
  "somebody else opened this console": "vmSessions.why.taken",
  "a text message was not understood": "vmSessions.why.broken",
  "the client's messages cannot be read": "vmSessions.why.broken",
};

/** Those that carry something, which is all that follows. */
export const BEGINNINGS: Readonly<Record<string, Key>> = {
  "ended with status ": "vmSessions.why.exited",
  "ended by signal ": "vmSessions.why.killed",
  "the VM's side was lost: ": "vmSessions.why.vmLost",
  "handshake failed: ": "vmSessions.why.handshake",
  "ended by an administrator: ": "vmSessions.why.administrator",
};

/** Why a session ended: what somebody did, and what is known, in the page's words; the
 * rest as it was told. */
export function endText({ why, ending }: Pick<VmSession, "why" | "ending">, t: Translate): string | undefined {
  if (why === undefined) return undefined;
  if (ending !== undefined && why.startsWith(`ended by ${ending.by}`)) {
    return t(ending.reason ? "vmSessions.endedFor" : "vmSessions.endedBy", { by: ending.by, reason: ending.reason });
  }
  const key = Object.hasOwn(ENDS, why) ? ENDS[why] : undefined;
  if (key !== undefined) return t(key);
  for (const [beginning, key] of Object.entries(BEGINNINGS)) {
    if (why.startsWith(beginning)) return t(key, { what: why.slice(beginning.length) });
  }
  return why;
}

// Sessions that are not listed one by one: some of those that are listed stand for them.

import type { VmSession } from "../../api/types";
import type { Translate } from "../../i18n";
import { dateTime } from "../../lib/time";

/** Most addresses that are named, and that one session names of those for which it stands. */
const MOST_PEERS = 16;

/** How many there were, since when and from where; nothing where all are listed. */
export function earlierText(
  sessions: readonly Pick<VmSession, "earlier">[],
  t: Translate,
  tag: string,
): string | undefined {
  const all = sessions.flatMap((it) => it.earlier ?? []);
  if (all.length === 0) return undefined;
  const first = Math.min(...all.map((it) => Date.parse(it.firstOpenedAt)));
  const peers = [...new Set(all.flatMap((it) => it.peers))];
  return t("vmSessions.earlier", {
    count: all.reduce((sum, it) => sum + it.count, 0),
    since: dateTime(new Date(first).toISOString(), tag),
    // Of so many there may be more that nobody has named.
    peers: peers.slice(0, MOST_PEERS).join(", ") + (peers.length < MOST_PEERS ? "" : ", …") || "–",
  });
}

// What an edit is based on, while the page goes on to show what is new.

import { useState } from "react";

export interface Basis<T> {
  /** What the form shows, and what its edit is compared with. */
  basis: T;
  /** Whether somebody else has edited it since. */
  isOutdated: boolean;
  /** Changes when the form has to be made anew. */
  round: number;
  /** Takes what is there for what the form shows. */
  renew: () => void;
  /** Takes the answer to the form's own edit. Before the page gets it. */
  saved: (answer: T) => void;
}

/** Follows `current` for as long as `shown` of it, which is what the form has, stays
 * the same: its status moves, and that is nobody's edit. */
export function useBasis<T extends { etag: string }>(current: T, shown: (it: T) => unknown): Basis<T> {
  const [{ basis, known }, set] = useState({ basis: current, known: new Set([current.etag]) });
  const [round, setRound] = useState(0);
  const take = (it: T) => set((before) => ({ basis: it, known: new Set(before.known).add(it.etag) }));
  const isSame = basis === current || JSON.stringify(shown(basis)) === JSON.stringify(shown(current));
  if (isSame && basis !== current) take(current);
  return {
    basis,
    // The page may still show what was there before the form's own edit.
    isOutdated: !isSame && !known.has(current.etag),
    round,
    renew: () => {
      take(current);
      setRound((round) => round + 1);
    },
    saved: take,
  };
}

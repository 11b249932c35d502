// What asks for a fresh proof of who one is waits here until it is given, and is asked
// again then: nobody has to repeat what they did.

import { signal } from "../lib/signal";

export interface ProofWanted {
  /** Ends the waiting. */
  end: (isProved: boolean) => void;
}

const wanted = signal<ProofWanted | null>(null);

/** What the dialog is shown for; nothing while nobody waits. */
export const useProofWanted = wanted.use;

let waiting: Promise<boolean> | undefined;

/** Asks whoever is at the page to show who they are. Whether they did; all that wait
 * share the answer. */
export function askForProof(): Promise<boolean> {
  waiting ??= new Promise<boolean>((end) => wanted.set({ end })).finally(() => {
    waiting = undefined;
    wanted.set(null);
  });
  return waiting;
}

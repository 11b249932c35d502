// Whether the API answers, for the banner.

import { signal } from "../lib/signal";
import { OfflineError, ProblemError } from "./problem";

const lost = signal(false);

export function heardFrom(): void {
  lost.set(false);
}

/** Notes an error if it means that there is no API to talk to. */
export function heardError(error: unknown): void {
  if (error instanceof OfflineError) lost.set(true);
  else if (error instanceof ProblemError) lost.set([502, 503, 504].includes(error.status));
}

export const useIsConnectionLost = lost.use;

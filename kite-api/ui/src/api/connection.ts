// Whether the API answers, for the banner.

import { useSyncExternalStore } from "react";
import { OfflineError, ProblemError } from "./problem";

let lost = false;
const listeners = new Set<() => void>();

function set(next: boolean): void {
  if (lost === next) return;
  lost = next;
  for (const listener of listeners) listener();
}

export function heardFrom(): void {
  set(false);
}

/** Notes an error if it means that there is no API to talk to. */
export function heardError(error: unknown): void {
  if (error instanceof OfflineError) set(true);
  else if (error instanceof ProblemError) set([502, 503, 504].includes(error.status));
}

export function useIsConnectionLost(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lost,
  );
}

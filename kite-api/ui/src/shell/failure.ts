// What went wrong on the way to a sign-in provider and back. The server leads the
// browser to a page with it in the address.

import { signal } from "../lib/signal";

export interface Failure {
  /** What its words are looked up by. */
  code: string;
  /** Name of the provider. */
  provider: string | null;
}

const failure = signal<Failure | null>(null);

/** Takes it out of the address before any page is shown: it is told once, and not
 * again when the page is loaded again or comes back after a sign-in. */
export function takeFailure(): void {
  const url = new URL(window.location.href);
  const code = url.searchParams.get("failed");
  if (code === null) return;
  failure.set({ code, provider: url.searchParams.get("provider") });
  for (const name of ["failed", "provider"]) url.searchParams.delete(name);
  window.history.replaceState(window.history.state, "", url);
}

export function forgetFailure(): void {
  failure.set(null);
}

export const useFailure = failure.use;

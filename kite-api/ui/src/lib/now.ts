// What time it is, for what is shown as time passes.

import { signal } from "./signal";

/** How often what time it is becomes another, in milliseconds. */
const TICK_MS = 10_000;

const now = signal(Date.now());
setInterval(() => now.set(Date.now()), TICK_MS);

/** What time it is, for a component that says how far away something is. */
export const useNow = now.use;

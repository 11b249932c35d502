// One value that parts of the page watch.

import { useSyncExternalStore } from "react";

export interface Signal<T> {
  get: () => T;
  set: (next: T) => void;
  /** The value, for a component. */
  use: () => T;
}

export function signal<T>(first: T): Signal<T> {
  let value = first;
  const listeners = new Set<() => void>();
  const get = () => value;
  const listen = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    get,
    set: (next) => {
      if (Object.is(value, next)) return;
      value = next;
      for (const listener of listeners) listener();
    },
    use: () => useSyncExternalStore(listen, get),
  };
}

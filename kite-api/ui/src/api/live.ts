// News as they happen (`GET events`). Where there are none the pages ask in
// intervals instead.

import { useEffect, useSyncExternalStore } from "react";
import { heardFrom } from "./connection";
import type { Image, Me, Offer, Vm } from "./types";

let live = false;
const listeners = new Set<() => void>();

function setLive(next: boolean): void {
  if (live === next) return;
  live = next;
  for (const listener of listeners) listener();
}

export function useIsLive(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => live,
  );
}

interface Snapshot {
  vms?: Vm[];
  images?: Image[];
  offers?: Offer[];
  me?: Me;
}

/** Where news go. */
export interface Sink {
  set(what: "vms" | "images" | "offers" | "me", value: unknown): void;
  put(list: "vms" | "images" | "offers", item: { name: string; uid?: string }): void;
  drop(list: "vms" | "images" | "offers", name: string): void;
  /** Whether somebody is signed in, though perhaps by another session. */
  isSignedIn(): Promise<boolean>;
}

const LISTS = { vm: "vms", image: "images", offer: "offers" } as const;

function listen(sink: Sink, onEnd: () => void): () => void {
  const source = new EventSource("/api/v1/events");
  const on = <T>(name: string, take: (data: T) => void) =>
    source.addEventListener(name, (event) => take(JSON.parse((event as MessageEvent<string>).data) as T));
  on<Snapshot>("snapshot", (snapshot) => {
    for (const what of ["vms", "images", "offers", "me"] as const) {
      if (snapshot[what] !== undefined) sink.set(what, snapshot[what]);
    }
    setLive(true);
    heardFrom();
  });
  for (const [kind, list] of Object.entries(LISTS)) {
    on<{ name: string; uid?: string }>(kind, (item) => sink.put(list, item));
    on<{ name: string }>(`${kind}-deleted`, (item) => sink.drop(list, item.name));
  }
  on<Me>("me", (me) => sink.set("me", me));
  on("signed-out", () => {
    source.close();
    setLive(false);
    onEnd();
  });
  // The browser tries again by itself, unless the API has no events at all.
  source.addEventListener("error", () => setLive(false));
  return () => {
    source.close();
    setLive(false);
  };
}

/** Takes news while the page is visible. */
export function useLiveNews(sink: Sink): void {
  useEffect(() => {
    let stop: (() => void) | undefined;
    let over = false;
    const follow = () => {
      stop?.();
      stop = document.hidden ? undefined : listen(sink, () => void again());
    };
    // Another password has ended the session, and begun the next.
    const again = async () => {
      if ((await sink.isSignedIn()) && !over) follow();
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      over = true;
      document.removeEventListener("visibilitychange", follow);
      stop?.();
    };
  }, [sink]);
}

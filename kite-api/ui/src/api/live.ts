// News as they happen (`GET events`). Where there are none the pages ask in
// intervals instead.

import { useEffect } from "react";
import { signal } from "../lib/signal";
import { heardFrom } from "./connection";
import type { Image, Me, Offer, Vm } from "./types";

const live = signal(false);

export const useIsLive = live.use;

/** Of which VMs the page shows sessions: those are told of only where asked for. */
export type Sessions = "own" | "all";

const sessions = signal<Sessions | null>(null);

/** Asks for news of sessions in VMs for as long as they are shown. */
export function useLiveSessions(of: Sessions): void {
  useEffect(() => {
    sessions.set(of);
    return () => sessions.set(null);
  }, [of]);
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
  /** Sessions in VMs have begun, ended or changed. */
  sessionsChanged(): void;
  /** There may be something that the account's owner should know of. */
  noticesChanged(): void;
  /** Whether somebody is signed in, though perhaps by another session. */
  isSignedIn(): Promise<boolean>;
}

const LISTS = { vm: "vms", image: "images", offer: "offers" } as const;

/** How long to wait after the stream was refused; doubled each time. */
const RETRY_MS = { first: 1000, most: 30_000 };

/** How long a stream has to last to be taken for one that works. */
const CALM_MS = 10_000;

interface Ends {
  /** Whoever was signed in is not, or not by this session. */
  onEnd: () => void;
  /** The API gave no stream, and the browser asks for none any more. */
  onRefused: () => void;
  onNews: () => void;
}

function listen(sink: Sink, of: Sessions | null, { onEnd, onRefused, onNews }: Ends): () => void {
  const source = new EventSource(of === null ? "/api/v1/events" : `/api/v1/events?sessions=${of}`);
  const on = <T>(name: string, take: (data: T) => void) =>
    source.addEventListener(name, (event) => take(JSON.parse((event as MessageEvent<string>).data) as T));
  on<Snapshot>("snapshot", (snapshot) => {
    for (const what of ["vms", "images", "offers", "me"] as const) {
      if (snapshot[what] !== undefined) sink.set(what, snapshot[what]);
    }
    live.set(true);
    heardFrom();
    onNews();
    // What happened before was told to nobody.
    if (of !== null) sink.sessionsChanged();
  });
  for (const [kind, list] of Object.entries(LISTS)) {
    on<{ name: string; uid?: string; expiresAt?: string }>(kind, (item) => {
      sink.put(list, item);
      if (item.expiresAt !== undefined) sink.noticesChanged();
    });
    on<{ name: string }>(`${kind}-deleted`, (item) => sink.drop(list, item.name));
  }
  on("vm-sessions", () => sink.sessionsChanged());
  on<Me>("me", (me) => {
    sink.set("me", me);
    sink.noticesChanged();
  });
  on("signed-out", () => {
    source.close();
    live.set(false);
    onEnd();
  });
  // The browser tries again by itself unless it was refused, as it is when the
  // access token has ended.
  source.addEventListener("error", () => {
    live.set(false);
    if (source.readyState === EventSource.CLOSED) onRefused();
  });
  return () => {
    source.close();
    live.set(false);
  };
}

/** Takes news while the page is visible, and the session is not over. */
export function useLiveNews(sink: Sink, isOver: boolean): void {
  const of = sessions.use();
  useEffect(() => {
    if (isOver) return;
    let stop: (() => void) | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let calm: ReturnType<typeof setTimeout> | undefined;
    let wait = RETRY_MS.first;
    let over = false;
    const pause = () => {
      clearTimeout(timer);
      stop?.();
      stop = undefined;
    };
    const follow = () => {
      pause();
      if (document.hidden) return;
      stop = listen(sink, of, {
        onEnd: later,
        onRefused: later,
        onNews: () => {
          clearTimeout(calm);
          calm = setTimeout(() => {
            wait = RETRY_MS.first;
          }, CALM_MS);
        },
      });
    };
    // Another password has ended the session and begun the next, or the access
    // token has to be renewed: asking who is signed in does that. After a pause, as
    // replicas may not be of one mind yet.
    const again = async () => {
      const isSignedIn = await sink.isSignedIn().catch(() => undefined);
      if (over || isSignedIn === false) return;
      if (isSignedIn) follow();
      else later();
    };
    const later = () => {
      pause();
      clearTimeout(calm);
      timer = setTimeout(() => void again(), wait);
      wait = Math.min(2 * wait, RETRY_MS.most);
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      over = true;
      clearTimeout(calm);
      document.removeEventListener("visibilitychange", follow);
      pause();
    };
  }, [sink, of, isOver]);
}

// News as they happen (`GET events`). Where there are none the pages ask in
// intervals instead.

import { useEffect } from "react";
import { signal } from "../lib/signal";
import { heardFrom } from "./connection";
import type { Image, Me, Offer, Vm } from "./types";

const live = signal(false);

export const useIsLive = live.use;

/** Whose the page shows of what is told of only where that is asked for. */
export type Followed = "own" | "all";

/** Asks for news of something for as long as it is shown, however often. */
function follower() {
  const followed = signal<Followed | null>(null);
  const shown: Followed[] = [];
  const tell = () => followed.set(shown.includes("all") ? "all" : (shown[0] ?? null));
  const useFollowing = (of: Followed) => {
    useEffect(() => {
      shown.push(of);
      tell();
      return () => {
        shown.splice(shown.indexOf(of), 1);
        tell();
      };
    }, [of]);
  };
  return [followed, useFollowing] as const;
}

const [sessions, useLiveSessions] = follower();
const [disks, useLiveDisks] = follower();

/** Asks for news of sessions in VMs, and of snapshots and volumes. */
export { useLiveSessions, useLiveDisks };

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
  /** Snapshots or volumes have. */
  disksChanged(): void;
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

/** What is followed beside what everybody is told of. */
interface Following {
  sessions: Followed | null;
  disks: Followed | null;
}

function listen(sink: Sink, of: Following, { onEnd, onRefused, onNews }: Ends): () => void {
  const asked = new URLSearchParams();
  for (const [what, whose] of Object.entries(of)) if (whose !== null) asked.set(what, whose);
  const source = new EventSource(asked.size === 0 ? "/api/v1/events" : `/api/v1/events?${asked}`);
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
    if (of.sessions !== null) sink.sessionsChanged();
    if (of.disks !== null) sink.disksChanged();
  });
  for (const [kind, list] of Object.entries(LISTS)) {
    on<{ name: string; uid?: string; expiresAt?: string }>(kind, (item) => {
      sink.put(list, item);
      if (item.expiresAt !== undefined) sink.noticesChanged();
    });
    on<{ name: string }>(`${kind}-deleted`, (item) => sink.drop(list, item.name));
  }
  on("vm-sessions", () => sink.sessionsChanged());
  for (const kind of ["vm-snapshots", "volumes"]) on(kind, () => sink.disksChanged());
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
  const followed = sessions.use();
  const followedDisks = disks.use();
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
      stop = listen(sink, { sessions: followed, disks: followedDisks }, {
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
  }, [sink, followed, followedDisks, isOver]);
}

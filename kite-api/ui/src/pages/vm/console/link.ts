// The way to a console: a ticket, then a WebSocket that carries its bytes.
// Binary frames are the console's; text frames are words between the page and
// the API.

import * as calls from "../../../api/calls";
import { sentence } from "../../../api/problem";
import type { ConsoleKind } from "../../../api/types";

/** Close codes of the API, in a word. */
const ENDS = {
  1000: "closed",
  1001: "restarting",
  // The browser's own: nobody said goodbye.
  1006: "broken",
  4401: "session-over",
  4403: "forbidden",
  4408: "timed-out",
  4409: "taken",
  4410: "ended",
  4500: "failed",
} as const;

/** How a console ended. */
export interface End {
  how: (typeof ENDS)[keyof typeof ENDS] | "refused" | "unknown";
  code: number;
  /** What the API says of it; may be empty. */
  why: string;
  /** Who ended it, where somebody did. */
  by?: string | undefined;
}

interface Words {
  ready?: true;
  /** With `ready`: what is shown is kept to be replayed. */
  recorded?: boolean;
  error?: { detail?: string; title?: string };
  ended?: { by: string; reason: string };
}

function endOf(code: number, reason: string, { error, ended }: Words): End {
  const how = Object.hasOwn(ENDS, code) ? ENDS[code as keyof typeof ENDS] : "unknown";
  if (how === "ended" && ended) return { how, code, why: ended.reason, by: ended.by };
  const why = sentence(error?.detail ?? error?.title ?? reason);
  return { how: how === "failed" && error ? "refused" : how, code, why };
}

export interface ConsoleEvents {
  onReady: (isRecorded: boolean) => void;
  onData: (data: Uint8Array) => void;
  onEnd: (end: End) => void;
  /** No console was opened: what the API says. */
  onRefused: (error: unknown) => void;
}

/** What is sent before the console is ready goes nowhere; after `close` nothing comes. */
export interface ConsoleLink {
  send: (data: Uint8Array | string) => void;
  resize: (cols: number, rows: number) => void;
  close: () => void;
}

/** Opens a console. */
export function openLink(
  vm: calls.VmRef,
  kind: ConsoleKind,
  size: { cols: number; rows: number },
  { onReady, onData, onEnd, onRefused }: ConsoleEvents,
): ConsoleLink {
  let socket: WebSocket | undefined;
  let over = false;
  const encoder = new TextEncoder();
  const send = (data: string | Uint8Array<ArrayBuffer>) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(data);
  };
  const say = (words: object) => send(JSON.stringify(words));
  const dial = ({ ticket }: { ticket: string }) => {
    if (over) return;
    const url = new URL("/api/v1/console", window.location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    let last: Words = {};
    socket.addEventListener("open", () => say({ ticket, ...size }));
    socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (over) return;
      if (typeof data !== "string") return onData(new Uint8Array(data));
      last = JSON.parse(data) as Words;
      if (last.ready) onReady(last.recorded === true);
    });
    socket.addEventListener("close", ({ code, reason }) => {
      if (!over) onEnd(endOf(code, reason, last));
    });
  };
  calls.openConsole(vm, kind).then(dial).catch((error: unknown) => {
    if (!over) onRefused(error);
  });
  return {
    send: (data) => send(typeof data === "string" ? encoder.encode(data) : (data as Uint8Array<ArrayBuffer>)),
    resize: (cols, rows) => say({ resize: { cols, rows } }),
    close: () => {
      over = true;
      socket?.close(1000);
    },
  };
}

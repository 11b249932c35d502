// The way to a console: a ticket, then a WebSocket that carries its bytes.
// Binary frames are the console's; text frames are words between the page and
// the API.

import * as calls from "../../../api/calls";
import type { ConsoleKind } from "../../../api/types";
import { endOf, type End, type Words } from "./end";

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
  vm: calls.Ref,
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

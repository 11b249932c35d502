// The way to a console: a ticket, then a WebSocket that carries its bytes.
// Binary frames are the console's; text frames are words between the page and
// the API.

import * as calls from "../../../api/calls";
import { sentence } from "../../../api/problem";

export type ConsoleKind = "Terminal" | "Vnc" | "Serial";

/** Why a console ended. */
export type End = "closed" | "session-over" | "taken" | "failed";

const ENDS: Record<number, End> = { 1000: "closed", 4401: "session-over", 4409: "taken" };

interface Words {
  ready?: true;
  error?: { detail?: string; title?: string };
}

export interface ConsoleEvents {
  onReady: () => void;
  onData: (data: Uint8Array) => void;
  onEnd: (end: End, why: string) => void;
}

export interface ConsoleLink {
  send: (data: Uint8Array | string) => void;
  resize: (cols: number, rows: number) => void;
  close: () => void;
}

/** Opens a console. Throws what the API says where it gives no ticket. */
export async function openLink(
  vm: calls.VmRef,
  kind: ConsoleKind,
  size: { cols: number; rows: number },
  events: ConsoleEvents,
): Promise<ConsoleLink> {
  const { ticket } = await calls.openConsole(vm, kind);
  const url = new URL("/api/v1/console", window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  let why = "";
  const encoder = new TextEncoder();
  const say = (words: object) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(words));
  };
  socket.addEventListener("open", () => say({ ticket, ...size }));
  socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) => {
    if (typeof data !== "string") return events.onData(new Uint8Array(data));
    const words = JSON.parse(data) as Words;
    if (words.error) why = words.error.detail ?? words.error.title ?? "";
    if (words.ready) events.onReady();
  });
  socket.addEventListener("close", ({ code, reason }) => events.onEnd(ENDS[code] ?? "failed", sentence(why || reason)));
  return {
    send: (data) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(typeof data === "string" ? encoder.encode(data) : data as Uint8Array<ArrayBuffer>);
    },
    resize: (cols, rows) => say({ resize: { cols, rows } }),
    close: () => socket.close(1000),
  };
}

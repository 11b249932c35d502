import RFB from "@novnc/novnc";
import { useEffect, useEffectEvent, useRef } from "react";
import type { ViewProps } from "./Console";
import { LEFT, UNREADABLE, type End } from "./end";
import { openLink, type ConsoleLink } from "./link";

/** noVNC's idea of a connection, made of a console's link. */
class Channel extends EventTarget {
  binaryType = "arraybuffer";
  protocol = "";
  readyState = "open";
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null;
  onclose: ((event: { code: number; reason: string; wasClean: boolean }) => void) | null = null;

  constructor(private readonly link: ConsoleLink) {
    super();
  }

  send(data: Uint8Array): void {
    this.link.send(new Uint8Array(data));
  }

  close(): void {
    if (this.readyState === "closed") return;
    this.readyState = "closed";
    this.link.close();
    // As a WebSocket: it hears of its close, and not before this has returned.
    queueMicrotask(() => this.onclose?.({ code: 1000, reason: "", wasClean: true }));
  }

  take(data: Uint8Array): void {
    this.onmessage?.({ data: data.slice().buffer as ArrayBuffer });
  }

  ended(): void {
    if (this.readyState === "closed") return;
    this.readyState = "closed";
    this.onclose?.({ code: 1000, reason: "", wasClean: true });
  }
}

/** The VM's screen. */
export default function Screen({ vm, kind, label, actions, onReady, onEnd, onRefused }: ViewProps) {
  // Not what the console rests on: it stays open when these are others.
  const ready = useEffectEvent(onReady);
  const ended = useEffectEvent(onEnd);
  const refused = useEffectEvent(onRefused);
  const labelled = useEffectEvent((element: Element | null | undefined) => element?.setAttribute("aria-label", label));
  const host = useRef<HTMLDivElement>(null);
  const { name, owner } = vm;
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    let rfb: RFB | undefined;
    // Bytes that come before noVNC listens.
    let early: Uint8Array[] | undefined = [];
    let isOver = false;
    const over = (end: End) => {
      if (isOver) return;
      isOver = true;
      channel.ended();
      ended(end);
    };
    const link = openLink({ name, owner }, kind, { cols: 80, rows: 24 }, {
      onReady: (isRecorded) => {
        rfb = new RFB(element, channel, { shared: true });
        rfb.scaleViewport = true;
        rfb.background = "transparent";
        const canvas = element.querySelector("canvas");
        labelled(canvas);
        canvas?.setAttribute("role", "application");
        // Keys reach it without a mouse, too.
        canvas?.setAttribute("tabindex", "0");
        // Before they have agreed on everything, keys would be the browser's.
        rfb.addEventListener("connect", () => {
          ready(isRecorded);
          // Not from a tab that somebody looks at meanwhile.
          if (element.clientWidth > 0) rfb?.focus();
        });
        // What comes is no screen's, or none that can be shown.
        rfb.addEventListener("disconnect", () => {
          link.close();
          over(UNREADABLE);
        });
        for (const data of early ?? []) channel.take(data);
        early = undefined;
      },
      onData: (data) => (early ? early.push(data) : channel.take(data)),
      onEnd: over,
      onRefused: refused,
    });
    const channel = new Channel(link);
    const leave = () => {
      isOver = true;
      rfb?.disconnect();
      link.close();
    };
    actions.current = {
      disconnect: () => {
        leave();
        ended(LEFT);
      },
      focus: () => rfb?.focus(),
      ctrlAltDel: () => rfb?.sendCtrlAltDel(),
    };
    return () => {
      actions.current = null;
      leave();
    };
  }, [name, owner, kind, actions]);
  return <div className="screen" ref={host} />;
}

import RFB from "@novnc/novnc";
import { useEffect, useEffectEvent, useRef } from "react";
import type { ViewProps } from "./Console";
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
    this.readyState = "closed";
    this.link.close();
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
export default function Screen({ vm, kind, label, onReady, onEnd, onRefused }: ViewProps) {
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
    const link = openLink({ name, owner }, kind, { cols: 80, rows: 24 }, {
      onReady: (isRecorded) => {
        rfb = new RFB(element, channel, { shared: true });
        rfb.scaleViewport = true;
        rfb.background = "transparent";
        labelled(element.querySelector("canvas"));
        for (const data of early ?? []) channel.take(data);
        early = undefined;
        ready(isRecorded);
        rfb.focus();
      },
      onData: (data) => (early ? early.push(data) : channel.take(data)),
      onEnd: (end) => {
        channel.ended();
        ended(end);
      },
      onRefused: refused,
    });
    const channel = new Channel(link);
    return () => {
      rfb?.disconnect();
      link.close();
    };
  }, [name, owner, kind]);
  return <div className="screen" ref={host} />;
}

import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import { useEffect, useEffectEvent, useRef } from "react";
import type { ViewProps } from "./Console";
import { openLink } from "./link";
import { styledDocument } from "./styled-document";
import { FONT, THEME } from "./theme";

/** A text console. */
export default function Terminal({ vm, kind, label, onReady, onEnd, onRefused }: ViewProps) {
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
    const terminal = new Xterm({
      documentOverride: styledDocument(),
      cursorBlink: true,
      fontFamily: FONT,
      fontSize: 14,
      screenReaderMode: true,
      scrollback: 5000,
      theme: THEME,
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(element);
    labelled(terminal.textarea);
    fit.fit();
    const { cols, rows } = terminal;
    const link = openLink({ name, owner }, kind, { cols, rows }, {
      onReady: (isRecorded) => {
        ready(isRecorded);
        terminal.focus();
      },
      onData: (data) => terminal.write(data),
      onEnd: ended,
      onRefused: refused,
    });
    const typed = terminal.onData((data) => link.send(data));
    const binary = terminal.onBinary((data) => link.send(Uint8Array.from(data, (c) => c.charCodeAt(0))));
    const resized = terminal.onResize(({ cols, rows }) => link.resize(cols, rows));
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    return () => {
      observer.disconnect();
      for (const listener of [typed, binary, resized]) listener.dispose();
      link.close();
      terminal.dispose();
    };
  }, [name, owner, kind]);
  return <div className="text-console" ref={host} />;
}

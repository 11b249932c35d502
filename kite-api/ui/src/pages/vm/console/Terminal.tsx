import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import { useEffect, useEffectEvent, useRef } from "react";
import type { ViewProps } from "./Console";
import { LEFT } from "./end";
import { openLink } from "./link";
import { openStyled, styledDocument } from "./styled-document";
import { FONT, THEME } from "./theme";

/** Puts an end to what programs had asked of the terminal: no cursor, and the mouse
 * selects text. */
const AT_REST = "\x1b[?25l\x1b[?1000l\x1b[?1002l\x1b[?1003l";

/** A text console. What it shows stays when it has ended. */
export default function Terminal({ vm, kind, label, actions, onReady, onEnd, onRefused }: ViewProps) {
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
    openStyled(terminal, element);
    labelled(terminal.textarea);
    fit.fit();
    const { cols, rows } = terminal;
    const rest = () => {
      terminal.options.disableStdin = true;
      // The keys that leave it do.
      terminal.attachCustomKeyEventHandler(() => false);
      terminal.write(AT_REST);
    };
    const link = openLink({ name, owner }, kind, { cols, rows }, {
      onReady: (isRecorded) => {
        ready(isRecorded);
        // Not from a tab that somebody looks at meanwhile.
        if (element.clientWidth > 0) terminal.focus();
      },
      onData: (data) => terminal.write(data),
      onEnd: (end) => {
        rest();
        ended(end);
      },
      onRefused: refused,
    });
    const typed = terminal.onData((data) => link.send(data));
    const binary = terminal.onBinary((data) => link.send(Uint8Array.from(data, (c) => c.charCodeAt(0))));
    const resized = terminal.onResize(({ cols, rows }) => link.resize(cols, rows));
    const observer = new ResizeObserver(() => {
      // While another tab is shown it has no size, and keeps the one that it had.
      if (element.clientWidth > 0) fit.fit();
    });
    observer.observe(element);
    actions.current = {
      disconnect: () => {
        link.close();
        rest();
        ended(LEFT);
      },
      focus: () => terminal.focus(),
    };
    return () => {
      actions.current = null;
      observer.disconnect();
      for (const listener of [typed, binary, resized]) listener.dispose();
      link.close();
      terminal.dispose();
    };
  }, [name, owner, kind, actions]);
  return <div className="text-console" ref={host} />;
}

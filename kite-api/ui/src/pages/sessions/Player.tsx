import "@xterm/xterm/css/xterm.css";
import { Terminal as Xterm } from "@xterm/xterm";
import Maximize from "lucide-react/icons/maximize";
import Minimize from "lucide-react/icons/minimize";
import Pause from "lucide-react/icons/pause";
import Play from "lucide-react/icons/play";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { Button } from "../../components/Button";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";
import { clock } from "../../lib/clock";
import { useFullScreen } from "../../lib/full-screen";
import { openStyled, styledDocument } from "../vm/console/styled-document";
import { FONT, THEME } from "../vm/console/theme";
import type { Cast, Moment } from "./cast";
import { fontSizeFor } from "./fit";

const SPEEDS = ["0.5", "1", "2", "4", "16"];
/** Most characters that are handed to the terminal at a time. */
const MOST_AT_ONCE = 65_536;
/** Most characters in a row that are read out to those who listen: reading out is by
 * far the slowest part of showing. */
const MOST_READ_OUT = 16_384;
/** After how long without more the screen can be listened to again, in milliseconds. */
const QUIET_MS = 300;
/** With what letters they are measured, in pixels: large, to be exact. */
const MEASURED = 32;
/** What of the window's height the player may take up, beside what is around it. */
const SHARE = 0.66;
/** What xterm.js keeps free for its scroll bar, in pixels. */
const SCROLL_BAR = 14;
/** Recordings shorter than this are told and gone through by parts of seconds. */
const SHORT = 10;

/** A terminal that shows a recording up to some moment. It takes one piece at a
 * time: what xterm.js has queued can neither be taken back nor be resized between. */
class Screen {
  private next = 0;
  private wanted = 0;
  private isBusy = false;
  /** Characters since it was quiet. */
  private loud = 0;
  private quiet: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly cast: Cast,
    readonly terminal: Xterm,
  ) {}

  /** Shows what there is to see at `seconds`, as soon as what was begun is shown. */
  show(seconds: number): void {
    this.wanted = seconds;
    if (!this.isBusy) this.go();
  }

  dispose(): void {
    clearTimeout(this.quiet);
    this.terminal.dispose();
  }

  private go(): void {
    const { moments, cols, rows } = this.cast;
    const before = moments[this.next - 1];
    if (before !== undefined && before.at > this.wanted) {
      this.terminal.reset();
      this.terminal.resize(cols, rows);
      this.next = 0;
    }
    let text = "";
    let size: Moment["size"];
    for (;;) {
      const moment = moments[this.next];
      if (moment === undefined || moment.at > this.wanted || text.length > MOST_AT_ONCE) break;
      // What was printed before is laid out at the size that it was printed for.
      if (moment.size !== undefined && text !== "") break;
      // Of several sizes in a row only the last is seen.
      size = moment.size ?? size;
      text += moment.printed ?? "";
      this.next += 1;
    }
    if (size !== undefined) this.terminal.resize(size.cols, size.rows);
    if (text === "") return;
    this.isBusy = true;
    this.mind(text.length);
    this.terminal.write(text, () => {
      this.isBusy = false;
      this.go();
    });
  }

  /** Keeps what goes by too fast from being read out. */
  private mind(more: number): void {
    const { options } = this.terminal;
    this.loud += more;
    if (this.loud > MOST_READ_OUT) options.screenReaderMode = false;
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => {
      this.loud = 0;
      options.screenReaderMode = true;
    }, QUIET_MS);
  }
}

/** Keeps the letters of a terminal as large as the room in `frame`, which the terminal's
 * `host` has to itself but for the bar below. Gives what stops that. */
function keepFitting(terminal: Xterm, frame: HTMLElement, host: HTMLElement): () => void {
  const screen = host.querySelector(".xterm-screen");
  if (!screen) return () => undefined;
  const { width, height } = screen.getBoundingClientRect();
  const cell = { width: width / terminal.cols / MEASURED, height: height / terminal.rows / MEASURED };
  const fit = () => {
    const style = getComputedStyle(host);
    const around = (...sides: string[]) => sides.reduce((sum, side) => sum + Number.parseFloat(style.getPropertyValue(side)), 0);
    const isFull = document.fullscreenElement === frame;
    const room = {
      width: host.clientWidth - around("padding-left", "padding-right") - SCROLL_BAR,
      height: isFull ? host.clientHeight - around("padding-top", "padding-bottom") : window.innerHeight * SHARE,
    };
    if (room.width <= 0) return;
    terminal.options.fontSize = fontSizeFor(room, cell, terminal.cols, terminal.rows);
  };
  const observer = new ResizeObserver(fit);
  observer.observe(frame);
  const resized = terminal.onResize(fit);
  return () => {
    observer.disconnect();
    resized.dispose();
  };
}

/** Plays a recording of a terminal. */
export default function Player({ cast, label }: { cast: Cast; label: string }) {
  const t = useT();
  const frame = useRef<HTMLDivElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const { isFull, toggle } = useFullScreen(frame);
  const screen = useRef<Screen | null>(null);
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(true);
  const [speed, setSpeed] = useState("1");
  const labelled = useEffectEvent((element: Element | null | undefined) => element?.setAttribute("aria-label", label));

  useEffect(() => {
    const [element, around] = [host.current, frame.current];
    if (!element || !around) return;
    const terminal = new Xterm({
      cols: cast.cols,
      rows: cast.rows,
      documentOverride: styledDocument(),
      disableStdin: true,
      fontFamily: FONT,
      fontSize: MEASURED,
      screenReaderMode: true,
      scrollback: 5000,
      theme: THEME,
    });
    openStyled(terminal, element);
    labelled(terminal.textarea);
    // Nothing is typed here: the keys that leave it do.
    terminal.attachCustomKeyEventHandler(() => false);
    const shown = new Screen(cast, terminal);
    screen.current = shown;
    const stop = keepFitting(terminal, around, element);
    return () => {
      stop();
      screen.current = null;
      shown.dispose();
    };
  }, [cast]);

  useEffect(() => screen.current?.show(at), [at]);

  useEffect(() => {
    if (!playing) return;
    let frame = 0;
    let before = performance.now();
    const step = (now: number) => {
      const passed = ((now - before) / 1000) * Number(speed);
      before = now;
      setAt((at) => Math.min(at + passed, cast.length));
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, cast]);

  const over = at >= cast.length;
  if (over && playing) setPlaying(false);
  const play = () => {
    if (over) setAt(0);
    setPlaying(!playing);
  };
  const isShort = cast.length < SHORT;
  const position = t("replay.of", { at: clock(at, isShort), length: clock(cast.length, isShort) });
  const step = isShort ? 1 : 5;
  const fullScreen = toggle && (
    <Button
      icon={isFull ? <Minimize aria-hidden /> : <Maximize aria-hidden />}
      aria-label={t(isFull ? "console.fullScreenEnd" : "console.fullScreen")}
      onPress={toggle}
    />
  );
  return (
    <div className="player" ref={frame}>
      <div className="text-console" ref={host} />
      {cast.length === 0 ? (
        <div className="player-bar">
          <span className="player-time">{t("replay.still")}</span>
          {fullScreen}
        </div>
      ) : (
        <div className="player-bar">
          <Button
            look="primary"
            icon={playing ? <Pause aria-hidden /> : <Play aria-hidden />}
            aria-label={t(playing ? "replay.pause" : "replay.play")}
            onPress={play}
          />
          <input
            type="range"
            min={0}
            max={cast.length}
            step="any"
            value={at}
            aria-label={t("replay.position")}
            aria-valuetext={position}
            onChange={(event) => setAt(Number(event.currentTarget.value))}
            onKeyDown={(event) => {
              const steps = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step } as Record<string, number>;
              const by = steps[event.key];
              if (by === undefined) return;
              event.preventDefault();
              setAt(Math.min(Math.max(at + by, 0), cast.length));
            }}
          />
          <span className="player-time">{position}</span>
          <Select
            ariaLabel={t("replay.speed")}
            options={SPEEDS.map((value) => ({ value, text: `${value}×` }))}
            value={speed}
            onChange={setSpeed}
            container={isFull ? (frame.current ?? undefined) : undefined}
          />
          {fullScreen}
        </div>
      )}
    </div>
  );
}

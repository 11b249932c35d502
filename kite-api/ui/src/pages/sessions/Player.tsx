import "@xterm/xterm/css/xterm.css";
import { Terminal as Xterm } from "@xterm/xterm";
import Pause from "lucide-react/icons/pause";
import Play from "lucide-react/icons/play";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { Button } from "../../components/Button";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";
import { clock } from "../../lib/time";
import { styledDocument } from "../vm/console/styled-document";
import { FONT, THEME } from "../vm/console/theme";
import type { Cast, Moment } from "./cast";

const SPEEDS = ["0.5", "1", "2", "4", "16"];
/** Most characters that are handed to the terminal at a time. */
const MOST_AT_ONCE = 65_536;
/** Most characters in a row that are read out to those who listen: reading out is by
 * far the slowest part of showing. */
const MOST_READ_OUT = 16_384;
/** After how long without more the screen can be listened to again, in milliseconds. */
const QUIET_MS = 300;
/** How wide a character is, of its height. */
const SLIMNESS = 0.62;

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

/** Plays a recording of a terminal. */
export default function Player({ cast, label }: { cast: Cast; label: string }) {
  const t = useT();
  const host = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(true);
  const [speed, setSpeed] = useState("1");
  const labelled = useEffectEvent((element: Element | null | undefined) => element?.setAttribute("aria-label", label));

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const terminal = new Xterm({
      cols: cast.cols,
      rows: cast.rows,
      documentOverride: styledDocument(),
      disableStdin: true,
      fontFamily: FONT,
      fontSize: Math.min(14, Math.max(6, Math.floor(element.clientWidth / cast.cols / SLIMNESS))),
      screenReaderMode: true,
      scrollback: 5000,
      theme: THEME,
    });
    terminal.open(element);
    labelled(terminal.textarea);
    // Nothing is typed here: the keys that leave it do.
    terminal.attachCustomKeyEventHandler(() => false);
    const shown = new Screen(cast, terminal);
    screen.current = shown;
    return () => {
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
  const position = t("replay.of", { at: clock(at), length: clock(cast.length) });
  return (
    <div className="player">
      <div className="text-console" ref={host} />
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
            const steps = { ArrowLeft: -5, ArrowDown: -5, ArrowRight: 5, ArrowUp: 5 } as Record<string, number>;
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
        />
      </div>
    </div>
  );
}

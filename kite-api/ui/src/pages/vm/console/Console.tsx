import CircleDot from "lucide-react/icons/circle-dot";
import Plug from "lucide-react/icons/plug";
import { lazy, Suspense, useCallback, useEffect, useRef, useState, type ComponentType, type KeyboardEvent, type RefObject } from "react";
import { isMissing } from "../../../api/problem";
import { keys, queries, useAccount, useConfig } from "../../../api/queries";
import type { Ref } from "../../../api/calls";
import type { ConsoleKind, Vm } from "../../../api/types";
import { Button } from "../../../components/Button";
import { useErrorText, useRefusalText } from "../../../components/errors";
import { Notice } from "../../../components/Notice";
import { useT } from "../../../i18n";
import { useFullScreen } from "../../../lib/full-screen";
import { isRunning, keptOff } from "../../../lib/vm";
import { ConsoleBar, OpeningBar } from "./ConsoleBar";
import { endText, isBad, type End } from "./end";

/** What can be done with a console that is open. */
export interface Actions {
  disconnect: () => void;
  focus: () => void;
  /** Where there are keys that the browser or the system would take for themselves. */
  ctrlAltDel?: () => void;
}

/** What shows a console: it opens its link and says when it is over. */
export interface ViewProps {
  vm: Ref;
  kind: ConsoleKind;
  label: string;
  actions: RefObject<Actions | null>;
  onReady: (isRecorded: boolean) => void;
  onEnd: (end: End) => void;
  onRefused: (error: unknown) => void;
}

const Terminal = lazy(() => import("./Terminal"));
const Screen = lazy(() => import("./Screen"));

const VIEWS: Record<Tab, { kind: ConsoleKind; View: ComponentType<ViewProps> }> = {
  terminal: { kind: "Terminal", View: Terminal },
  screen: { kind: "Vnc", View: Screen },
  serial: { kind: "Serial", View: Terminal },
};

type Tab = "terminal" | "screen" | "serial";
type State =
  | { at: "closed" }
  | { at: "opening" }
  | { at: "open"; isRecorded: boolean }
  /** `wasOpen`: what it showed last can still be read. */
  | { at: "ended"; text: string; bad: boolean; wasOpen: boolean };

interface Props {
  vm: Vm;
  kind: Tab;
  onLive: (kind: Tab, isLive: boolean) => void;
}

/** One of a VM's consoles, from before it is opened until after it has ended. */
export default function Console({ vm, kind, onLive }: Props) {
  const t = useT();
  const me = useAccount();
  const errorText = useErrorText();
  const refusalText = useRefusalText();
  const [state, setState] = useState<State>({ at: "closed" });
  // Each time that it is opened there is a new view.
  const [round, setRound] = useState(0);
  const actions = useRef<Actions>(null);
  const stage = useRef<HTMLDivElement>(null);
  const { isFull, toggle } = useFullScreen(stage, true);
  const { kind: consoleKind, View } = VIEWS[kind];
  const owner = vm.owner === me.name ? undefined : vm.owner;
  const isLive = state.at === "open";
  const isEnded = state.at === "ended";
  /** Whoever was in it when it ended is led to why it did. */
  const hadFocus = useRef(false);
  const why = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!isEnded) return;
    const lead = () => hadFocus.current && why.current?.focus();
    if (document.fullscreenElement === null) return void lead();
    // Why it ended and what can be done stand below it, and cannot be reached before.
    void document.exitFullscreen().catch(() => undefined).then(lead);
  }, [isEnded]);

  useEffect(() => {
    if (!isLive) return;
    onLive(kind, true);
    return () => onLive(kind, false);
  }, [isLive, kind, onLive]);

  const onReady = useCallback((isRecorded: boolean) => setState({ at: "open", isRecorded }), []);
  const onEnd = useCallback(
    (end: End) => {
      // Perhaps another has begun in this browser: what is there is asked for, and what is
      // written in the page stays.
      if (end.how === "session-over") void queries.refetchQueries({ queryKey: keys.me });
      hadFocus.current = stage.current?.contains(document.activeElement) ?? false;
      const text = endText(end, me.name, t, refusalText);
      setState(({ at }) => ({ at: "ended", text, bad: isBad(end), wasOpen: at === "open" }));
    },
    [t, me.name, refusalText],
  );
  const onRefused = useCallback(
    (error: unknown) => {
      hadFocus.current = stage.current?.contains(document.activeElement) ?? false;
      setState({ at: "ended", text: isMissing(error) ? t("console.missing") : errorText(error), bad: true, wasOpen: false });
    },
    [t, errorText],
  );
  const open = () => {
    setRound(round + 1);
    setState({ at: "opening" });
  };
  /** Its view goes, and closes what it was about to open. */
  const giveUp = () => {
    hadFocus.current = true;
    setState({ at: "ended", text: t("console.end.givenUp"), bad: false, wasOpen: false });
  };

  const whyNot = t(keptOff(vm) === undefined ? "console.notRunning" : "console.keptOff");
  if (!isRunning(vm) && state.at === "closed") return <Notice tone="off">{whyNot}</Notice>;
  const isUnderWay = state.at === "opening" || state.at === "open";
  // The screen's picture goes with its connection.
  const isShown = isUnderWay || (state.at === "ended" && state.wasOpen && kind !== "screen");
  return (
    <section className="card console" aria-label={t(`tab.${kind}`)}>
      {state.at === "closed" && <p className="quiet-text">{t(`console.about.${kind}`)}</p>}
      {state.at === "closed" && kind === "terminal" && <Recorded />}
      {isShown && (
        <div className="console-stage" ref={stage} onKeyDownCapture={leadOut}>
          {/* There before it says something: only then is it read out. */}
          <div role="status" className="recorded">
            {state.at === "open" && state.isRecorded && (
              <>
                <CircleDot aria-hidden /> {t("console.recorded")}
              </>
            )}
          </div>
          {state.at === "opening" && <OpeningBar onGiveUp={giveUp} />}
          {state.at === "open" && (
            <ConsoleBar actions={actions} hasKeys={kind === "screen"} isFull={isFull} onFullScreen={toggle} />
          )}
          <Suspense>
            <View
              key={round}
              vm={{ name: vm.name, owner }}
              kind={consoleKind}
              label={t("console.label", { name: vm.name })}
              actions={actions}
              onReady={onReady}
              onEnd={onEnd}
              onRefused={onRefused}
            />
          </Suspense>
        </div>
      )}
      {state.at === "ended" && (
        <div ref={why} tabIndex={-1} className="console-end">
          <Notice tone={state.bad ? "bad" : "off"}>{state.text}</Notice>
        </div>
      )}
      {!isUnderWay && (
        <div className="console-again">
          <Button look="primary" icon={<Plug aria-hidden />} onPress={open}>
            {t(state.at === "ended" ? "console.again" : "console.open")}
          </Button>
          {!isRunning(vm) && <span className="quiet-text">{whyNot}</span>}
        </div>
      )}
    </section>
  );
}

/** Consoles take all keys, so this one leads out of them: to what can be done with them. */
function leadOut(event: KeyboardEvent<HTMLElement>) {
  if (!(event.ctrlKey && event.shiftKey && event.key === "F6")) return;
  event.preventDefault();
  event.stopPropagation();
  event.currentTarget.querySelector<HTMLElement>(".console-bar button")?.focus();
}

/** Says that what is about to be opened is recorded. */
function Recorded() {
  const t = useT();
  // Replicas that are older do not say.
  const isRecorded = useConfig().data?.terminalsRecorded === true;
  return isRecorded ? <Notice tone="warn">{t("console.willBeRecorded")}</Notice> : null;
}

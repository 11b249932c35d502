import CircleDot from "lucide-react/icons/circle-dot";
import Plug from "lucide-react/icons/plug";
import { lazy, Suspense, useCallback, useState, type ComponentType } from "react";
import { isMissing } from "../../../api/problem";
import { tellSignedOut } from "../../../api/client";
import { useAccount } from "../../../api/queries";
import type { VmRef } from "../../../api/calls";
import type { ConsoleKind, Vm } from "../../../api/types";
import { Button } from "../../../components/Button";
import { useErrorText } from "../../../components/errors";
import { Loading } from "../../../components/Loaded";
import { Notice } from "../../../components/Notice";
import { useT, type Translate } from "../../../i18n";
import { isRunning } from "../../../lib/vm";
import type { End } from "./link";

/** What shows a console: it opens its link and says when it is over. */
export interface ViewProps {
  vm: VmRef;
  kind: ConsoleKind;
  label: string;
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
type State = { at: "closed" } | { at: "opening" } | { at: "open"; isRecorded: boolean } | { at: "ended"; text: string; bad: boolean };

/** What happens without anything being wrong. */
const EXPECTED: ReadonlySet<End["how"]> = new Set(["closed", "restarting", "timed-out", "ended"]);

/** Why a console is over, for whoever sat at it. */
function endText({ how, code, why, by }: End, me: string, t: Translate): string {
  switch (how) {
    case "ended": {
      const who = by === undefined ? t("console.end.ended") : by === me ? t("console.end.endedSelf") : t("console.end.endedBy", { by });
      return why ? `${who} ${t("console.end.reason", { why })}` : who;
    }
    // These say it all.
    case "closed":
    case "restarting":
    case "broken":
    case "taken":
    case "forbidden":
      return t(`console.end.${how}`);
    case "session-over":
    case "timed-out":
    case "refused":
    case "failed":
      return `${t(`console.end.${how}`)} ${why}`.trim();
    case "unknown":
      return `${t("console.end.unknown", { code })} ${why}`.trim();
  }
}

/** One of a VM's consoles, from before it is opened until it ended. */
export default function Console({ vm, kind }: { vm: Vm; kind: Tab }) {
  const t = useT();
  const me = useAccount();
  const errorText = useErrorText();
  const [state, setState] = useState<State>({ at: "closed" });
  const { kind: consoleKind, View } = VIEWS[kind];
  const owner = vm.owner === me.name ? undefined : vm.owner;

  const onReady = useCallback((isRecorded: boolean) => setState({ at: "open", isRecorded }), []);
  const onEnd = useCallback(
    (end: End) => {
      if (end.how === "session-over") tellSignedOut();
      setState({ at: "ended", text: endText(end, me.name, t), bad: !EXPECTED.has(end.how) });
    },
    [t, me.name],
  );
  const onRefused = useCallback(
    (error: unknown) =>
      setState({ at: "ended", text: isMissing(error) ? t("console.missing") : errorText(error), bad: true }),
    [t, errorText],
  );

  if (!isRunning(vm) && state.at === "closed") return <Notice tone="off">{t("console.notRunning")}</Notice>;
  const shown = state.at === "opening" || state.at === "open";
  return (
    <section className="card console" aria-label={t(`tab.${kind}`)}>
      {state.at === "ended" && <Notice tone={state.bad ? "bad" : "off"}>{state.text}</Notice>}
      {state.at === "closed" && <p className="quiet-text">{t(`console.about.${kind}`)}</p>}
      {!shown && (
        <div>
          <Button look="primary" icon={<Plug aria-hidden />} onPress={() => setState({ at: "opening" })}>
            {t(state.at === "ended" ? "console.again" : "console.open")}
          </Button>
        </div>
      )}
      {state.at === "opening" && <Loading />}
      {/* There before it says something: only then is it read out. */}
      {shown && (
        <div role="status" className="recorded">
          {state.at === "open" && state.isRecorded && (
            <>
              <CircleDot aria-hidden /> {t("console.recorded")}
            </>
          )}
        </div>
      )}
      {shown && (
        <Suspense>
          <View
            vm={{ name: vm.name, owner }}
            kind={consoleKind}
            label={t("console.label", { name: vm.name })}
            onReady={onReady}
            onEnd={onEnd}
            onRefused={onRefused}
          />
        </Suspense>
      )}
    </section>
  );
}

import Keyboard from "lucide-react/icons/keyboard";
import Maximize from "lucide-react/icons/maximize";
import Minimize from "lucide-react/icons/minimize";
import Unplug from "lucide-react/icons/unplug";
import X from "lucide-react/icons/x";
import { useEffect, useRef, type RefObject } from "react";
import { Button } from "../../../components/Button";
import { Loading } from "../../../components/Loaded";
import { useT } from "../../../i18n";
import type { Actions } from "./Console";

interface Props {
  actions: RefObject<Actions | null>;
  /** There are keys that cannot be pressed here. */
  hasKeys: boolean;
  isFull: boolean;
  onFullScreen: (() => void) | undefined;
}

/** What can be done while a console is being opened. Whoever opened it is led here, as
 * the button for that has gone; but not onto the button that gives it up, as people press
 * Enter in a console that is slow to come. */
export function OpeningBar({ onGiveUp }: { onGiveUp: () => void }) {
  const t = useT();
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => bar.current?.focus(), []);
  return (
    <div ref={bar} tabIndex={-1} className="console-bar" role="group" aria-label={t("actions")}>
      <Loading />
      <Button small icon={<X aria-hidden />} onPress={onGiveUp}>
        {t("console.giveUp")}
      </Button>
    </div>
  );
}

/** What can be done with a console that is open. */
export function ConsoleBar({ actions, hasKeys, isFull, onFullScreen }: Props) {
  const t = useT();
  /** Whoever pressed a button goes on typing. */
  const then = (act: (() => void) | undefined) => () => {
    act?.();
    actions.current?.focus();
  };
  return (
    <div className="console-bar" role="group" aria-label={t("actions")}>
      {hasKeys && (
        <Button small icon={<Keyboard aria-hidden />} onPress={then(() => actions.current?.ctrlAltDel?.())}>
          {t("console.ctrlAltDel")}
        </Button>
      )}
      {onFullScreen && (
        <Button small icon={isFull ? <Minimize aria-hidden /> : <Maximize aria-hidden />} onPress={then(onFullScreen)}>
          {t(isFull ? "console.fullScreenEnd" : "console.fullScreen")}
        </Button>
      )}
      <Button small icon={<Unplug aria-hidden />} onPress={() => actions.current?.disconnect()}>
        {t("console.disconnect")}
      </Button>
      <small className="quiet-text">{t("console.wayOut")}</small>
    </div>
  );
}

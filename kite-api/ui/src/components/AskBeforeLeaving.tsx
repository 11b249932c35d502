import { useCallback, useEffect } from "react";
import { useBlocker, type Location } from "react-router";
import { useT } from "../i18n";
import { watchLosses } from "../lib/losses";
import { Button } from "./Button";
import { Dialog } from "./Dialog";

/** Asks before the page is left for another, if something would be lost: `losses` says
 * what, at that moment. Its tabs, which differ in the query alone, are the same page. */
export function AskBeforeLeaving({ losses }: { losses: () => readonly string[] }) {
  const t = useT();
  const blocker = useBlocker(
    useCallback(
      ({ currentLocation, nextLocation }: { currentLocation: Location; nextLocation: Location }) =>
        currentLocation.pathname !== nextLocation.pathname && losses().length > 0,
      [losses],
    ),
  );
  const isAsked = blocker.state === "blocked";

  useEffect(() => watchLosses(losses), [losses]);

  // Of a tab that is closed, or a page that is loaded anew, the browser asks itself.
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent) => {
      if (losses().length > 0) event.preventDefault();
    };
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [losses]);

  useEffect(() => {
    // The question would be behind what fills the screen.
    if (isAsked && document.fullscreenElement) void document.exitFullscreen();
  }, [isAsked]);

  if (!isAsked) return null;
  return (
    <AskAboutLosses
      title={t("leave.title")}
      losses={losses()}
      go={t("leave.go")}
      onGo={() => blocker.proceed()}
      onStay={() => blocker.reset()}
    />
  );
}

interface Question {
  title: string;
  losses: readonly string[];
  go: string;
  onGo: () => void;
  onStay: () => void;
}

/** Whether somebody goes although something is lost by it. */
export function AskAboutLosses({ title, losses, go, onGo, onStay }: Question) {
  const t = useT();
  return (
    <Dialog title={title} isOpen onClose={onStay}>
      {losses.map((loss) => (
        <p key={loss}>{loss}</p>
      ))}
      <div className="form-actions">
        <Button look="danger" onPress={onGo}>
          {go}
        </Button>
        <Button autoFocus onPress={onStay}>
          {t("leave.stay")}
        </Button>
      </div>
    </Dialog>
  );
}

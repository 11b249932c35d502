import { useQuery } from "@tanstack/react-query";
import Download from "lucide-react/icons/download";
import { lazy, Suspense } from "react";
import { getRecording, recordingPath } from "../../api/calls";
import { brokenOff } from "../../api/client";
import { ProblemError } from "../../api/problem";
import type { VmSession } from "../../api/types";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { Loaded, Loading } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { useErrorText } from "../../components/errors";
import { useT } from "../../i18n";
import { clock } from "../../lib/clock";
import { isEmpty, readCast, type Cast } from "./cast";

const Player = lazy(() => import("./Player"));

/** After how long to ask again for what is still being stored, in milliseconds. */
const waitFor = (error: unknown): number | undefined =>
  error instanceof ProblemError && error.status === 409 && error.retryAfter !== undefined ? error.retryAfter * 1000 : undefined;

interface Props {
  session: VmSession;
  recording: string;
  onClose: () => void;
}

/** A recording of a session, in a dialog. */
export function Replay({ session, recording, onClose }: Props) {
  const t = useT();
  const errorText = useErrorText();
  const title = t("replay.title", { login: session.login, vm: session.vm });
  const query = useQuery({
    queryKey: ["recording", session.name, recording],
    queryFn: async ({ signal }) => {
      const stream = await getRecording(session.name, recording, signal);
      return readCast(stream).catch((error: unknown) => {
        throw brokenOff(error);
      });
    },
    // A session is over before the last of it is stored: a moment, or as long as a store is slow.
    retry: (_, error) => waitFor(error) !== undefined,
    retryDelay: (_, error) => waitFor(error) ?? 0,
    // It does not change, and may be large.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    structuralSharing: false,
  });
  return (
    <Dialog title={title} isOpen onClose={onClose} wide="full">
      {query.isError ? (
        // Also that there is none: the API says why.
        <Notice tone="bad">{errorText(query.error)}</Notice>
      ) : query.isPending && query.failureReason !== null ? (
        <Loading>{t("replay.stored")}</Loading>
      ) : (
        <Loaded query={query}>
          {(cast) => (
            <div className="stack">
              {cast === null ? (
                <Notice tone="bad">{t("replay.broken")}</Notice>
              ) : (
                <Recorded cast={cast} label={title} recording={recording} />
              )}
              <p>
                <a href={recordingPath(session.name, recording)} download={recording} className="button plain small">
                  <Download aria-hidden /> {t("replay.download")}
                </a>
              </p>
            </div>
          )}
        </Loaded>
      )}
    </Dialog>
  );
}

function Recorded({ cast, label, recording }: { cast: Cast; label: string; recording: string }) {
  const t = useT();
  return (
    <>
      {cast.isCut && (
        <>
          <Notice tone="warn">{t("replay.cut", { length: clock(cast.length) })}</Notice>
          <CopyText text={`asciinema play ${recording}`} label={t("replay.command")} />
        </>
      )}
      {isEmpty(cast) ? (
        <Notice tone="off">{t("replay.empty")}</Notice>
      ) : (
        <Suspense fallback={<Loading />}>
          <Player cast={cast} label={label} />
        </Suspense>
      )}
    </>
  );
}

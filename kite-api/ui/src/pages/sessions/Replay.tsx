import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { getRecording } from "../../api/calls";
import type { VmSession } from "../../api/types";
import { Dialog } from "../../components/Dialog";
import { Loaded, Loading } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { useErrorText } from "../../components/errors";
import { useT } from "../../i18n";
import { readCast } from "./cast";

const Player = lazy(() => import("./Player"));

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
    queryFn: () => getRecording(session.name, recording),
    // It is whole, and may be large.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  return (
    <Dialog title={title} isOpen onClose={onClose} wide>
      {query.isError ? (
        // Also that there is none: the API says why.
        <Notice tone="bad">{errorText(query.error)}</Notice>
      ) : (
        <Loaded query={query}>{(text) => <Recorded text={text} label={title} />}</Loaded>
      )}
    </Dialog>
  );
}

function Recorded({ text, label }: { text: string; label: string }) {
  const t = useT();
  const cast = useMemo(() => readCast(text), [text]);
  if (cast === undefined) return <Notice tone="bad">{t("replay.broken")}</Notice>;
  return (
    <Suspense fallback={<Loading />}>
      <Player cast={cast} label={label} />
    </Suspense>
  );
}

import CircleStop from "lucide-react/icons/circle-stop";
import Play from "lucide-react/icons/play";
import { useState, type ReactNode } from "react";
import { Link } from "react-router";
import { useAccount } from "../../api/queries";
import type { VmSession } from "../../api/types";
import { Button } from "../../components/Button";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { useI18n, type Key } from "../../i18n";
import { clientName } from "../../lib/client-name";
import { useNow } from "../../lib/now";
import { lasted } from "../../lib/span";
import { vmPath } from "../../lib/vm";
import { earlierText } from "./earlier";
import { endText } from "./ends";
import { EndSession } from "./EndSession";
import { Replay } from "./Replay";

interface Props {
  label: string;
  sessions: readonly VmSession[];
  empty: ReactNode;
  /** Of those that last, or of those that are over: it has the same columns all the time. */
  live: boolean;
  /** Of all VMs: says of which each is. */
  ofAll?: boolean;
  mayEnd: boolean;
}

type Asked = { session: VmSession; recording?: string } | null;

/** Sessions in VMs, and what can be done with each. */
export function SessionTable({ label, sessions, empty, live, ofAll = false, mayEnd }: Props) {
  const { t, tag } = useI18n();
  const me = useAccount();
  const [asked, setAsked] = useState<Asked>(null);
  const ofVm: Column<VmSession> = {
    title: t("vmSessions.vm"),
    cell: (it) => (
      <>
        <Link to={vmPath({ name: it.vm, owner: it.owner }, me.name)}>{it.vm}</Link> <small>{it.owner}</small>
      </>
    ),
  };
  const ended: Column<VmSession> = {
    title: t("vmSessions.ended"),
    cell: (it) => {
      if (it.endedAt === undefined) return "–";
      return (
        <>
          <When time={it.endedAt} is="past" /> <small className="under">{endText(it, t)}</small>
        </>
      );
    },
  };
  const columns: readonly Column<VmSession>[] = [
    {
      title: t("vmSessions.who"),
      head: true,
      cell: (it) => (
        <>
          {it.login}{" "}
          <small className="under">
            {/* Consoles are accounts', and who comes by ssh has told no more than a login name. */}
            {t(it.kind === "Ssh" ? "vmSessions.asLogin" : "vmSessions.asAccount")} ·{" "}
            {t(`vmSessions.kind.${it.kind}` as Key)}
          </small>
        </>
      ),
    },
    ...(ofAll ? [ofVm] : []),
    {
      title: t("vmSessions.from"),
      cell: (it) => (
        <>
          {it.peer ?? "–"} {it.client !== undefined && <small className="under" title={it.client}>{clientName(it.client)}</small>}
        </>
      ),
    },
    { title: t("vmSessions.opened"), cell: (it) => <When time={it.openedAt} is="past" /> },
    ...(live ? [] : [ended]),
    { title: t("vmSessions.lasted"), cell: (it) => <Lasted session={it} /> },
    {
      title: t("actions"),
      actions: true,
      cell: (it) => (
        <>
          {me.accessLevel === "Admin" &&
            !it.live &&
            it.recordings.map((recording, index) => (
              <Button
                key={recording}
                small
                icon={<Play aria-hidden />}
                aria-label={t("vmSessions.replayOf", { login: it.login, number: index + 1 })}
                onPress={() => setAsked({ session: it, recording })}
              >
                {t("vmSessions.replay")}
              </Button>
            ))}
          {mayEnd && it.live && it.ending === undefined && (
            <Button
              small
              icon={<CircleStop aria-hidden />}
              aria-label={t("vmSessions.endOf", { login: it.login, peer: it.peer ?? "–" })}
              onPress={() => setAsked({ session: it })}
            >
              {t("vmSessions.end")}
            </Button>
          )}
        </>
      ),
    },
  ];
  const close = () => setAsked(null);
  const earlier = earlierText(sessions, t, tag);
  return (
    <>
      <Table label={label} columns={columns} rows={sessions} rowKey={(it) => it.name} empty={empty} />
      {earlier !== undefined && <p className="quiet-text">{earlier}</p>}
      {asked !== null &&
        (asked.recording === undefined ? (
          <EndSession session={asked.session} asOwner={!ofAll} onClose={close} />
        ) : (
          <Replay session={asked.session} recording={asked.recording} onClose={close} />
        ))}
    </>
  );
}

/** How long a session lasts, or has lasted; and that somebody is about to end it. */
function Lasted({ session: { openedAt, endedAt, live, ending } }: { session: VmSession }) {
  const { t, tag } = useI18n();
  const now = useNow();
  // Of one whose server was lost nobody knows.
  if (endedAt === undefined && !live) return "–";
  return (
    <>
      {lasted(openedAt, endedAt === undefined ? now : Date.parse(endedAt), tag)}
      {live && ending !== undefined && <small className="under">{t("vmSessions.ending", { by: ending.by })}</small>}
    </>
  );
}

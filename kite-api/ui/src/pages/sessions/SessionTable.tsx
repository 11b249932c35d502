import CircleStop from "lucide-react/icons/circle-stop";
import Play from "lucide-react/icons/play";
import { useState, type ReactNode } from "react";
import { Link } from "react-router";
import { useAccount } from "../../api/queries";
import type { VmSession } from "../../api/types";
import { Button } from "../../components/Button";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { useT, type Key, type Translate } from "../../i18n";
import { clientName } from "../../lib/client-name";
import { vmPath } from "../../lib/vm";
import { EndSession } from "./EndSession";
import { Replay } from "./Replay";

interface Props {
  label: string;
  sessions: readonly VmSession[];
  empty: ReactNode;
  /** Of all VMs: says of which each is. */
  ofAll?: boolean;
  mayEnd: boolean;
}

type Asked = { session: VmSession; recording?: string } | null;

/** Sessions in VMs, and what can be done with each. */
export function SessionTable({ label, sessions, empty, ofAll = false, mayEnd }: Props) {
  const t = useT();
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
      if (it.endedAt !== undefined) {
        return (
          <>
            <When time={it.endedAt} is="past" /> <small className="under">{whyOf(it, t)}</small>
          </>
        );
      }
      return it.ending === undefined ? "–" : t("vmSessions.ending", { by: it.ending.by });
    },
  };
  const hasEnd = sessions.some((it) => (it.endedAt ?? it.ending) !== undefined);
  const columns: readonly Column<VmSession>[] = [
    {
      title: t("vmSessions.login"),
      head: true,
      cell: (it) => (
        <>
          {it.login} <small>{t(`vmSessions.kind.${it.kind}` as Key)}</small>
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
    ...(hasEnd ? [ended] : []),
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
  return (
    <>
      <Table label={label} columns={columns} rows={sessions} rowKey={(it) => it.name} empty={empty} />
      {asked !== null &&
        (asked.recording === undefined ? (
          <EndSession session={asked.session} asOwner={!ofAll} onClose={close} />
        ) : (
          <Replay session={asked.session} recording={asked.recording} onClose={close} />
        ))}
    </>
  );
}

/** Why a session ended: what somebody did in the page's words, the rest in the API's. */
function whyOf({ why, ending }: VmSession, t: Translate): string | undefined {
  if (ending === undefined || !why?.startsWith(`ended by ${ending.by}`)) return why;
  return t(ending.reason ? "vmSessions.endedFor" : "vmSessions.endedBy", { by: ending.by, reason: ending.reason });
}

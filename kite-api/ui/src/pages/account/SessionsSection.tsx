import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useSessions } from "../../api/queries";
import type { Session } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { useI18n } from "../../i18n";
import { clientName } from "../../lib/client-name";
import { useNow } from "../../lib/now";
import { ago, relative } from "../../lib/time";

const refetch = () => queries.invalidateQueries({ queryKey: keys.sessions });

/** Where one is signed in. */
export function SessionsSection() {
  const { t, tag } = useI18n();
  const sessions = useSessions();
  useNow();
  const [asking, setAsking] = useState(false);
  const [ending, setEnding] = useState<Session | null>(null);
  const nameOf = (session: Session) =>
    session.client === undefined ? t("sessions.unknown") : clientName(session.client);
  const others = sessions.data?.some((session) => !session.current) ?? false;
  return (
    <Section
      title={t("sessions.title")}
      lead={t("sessions.lead")}
      actions={
        others ? (
          <Button small onPress={() => setAsking(true)}>
            {t("sessions.endOthers")}
          </Button>
        ) : undefined
      }
    >
      <Loaded query={sessions}>
        {(sessions) => (
          <ul className="rows" aria-label={t("sessions.title")}>
            {sessions.map((session) => (
              <li key={session.name}>
                <div>
                  <strong title={session.client}>{nameOf(session)}</strong>
                  <small>
                    {session.current && `${t("sessions.current")} · `}
                    {session.createdAt !== undefined &&
                      `${t("sessions.since", { when: ago(session.createdAt, tag) })} · `}
                    {t("sessions.until", { when: relative(session.expiresAt, tag) })}
                  </small>
                </div>
                {!session.current && (
                  <Button
                    small
                    aria-label={t("sessions.endOf", { client: nameOf(session) })}
                    onPress={() => setEnding(session)}
                  >
                    {t("sessions.end")}
                  </Button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {ending !== null && (
        <Confirm
          isMild
          title={t("sessions.endAsk", { client: nameOf(ending) })}
          submit={t("sessions.endSubmit")}
          consequence={t("sessions.endConsequence")}
          done={t("sessions.ended")}
          isOpen
          onClose={() => setEnding(null)}
          send={() => calls.endSession(ending.name).then(refetch)}
        />
      )}
      <Confirm
        isMild
        title={t("sessions.endOthersAsk")}
        submit={t("sessions.endOthers")}
        consequence={t("sessions.endOthersConsequence")}
        done={t("sessions.othersEnded")}
        isOpen={asking}
        onClose={() => setAsking(false)}
        send={() => calls.endOtherSessions().then(refetch)}
      />
    </Section>
  );
}

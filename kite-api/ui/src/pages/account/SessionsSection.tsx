import * as calls from "../../api/calls";
import { keys, queries, useSessions } from "../../api/queries";
import type { Session } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { useI18n } from "../../i18n";
import { clientName } from "../../lib/client-name";
import { ago, relative, useNow } from "../../lib/time";

const refetch = () => queries.invalidateQueries({ queryKey: keys.sessions });

/** Where one is signed in. */
export function SessionsSection() {
  const { t, tag } = useI18n();
  const sessions = useSessions();
  useNow();
  const nameOf = (session: Session) =>
    session.client === undefined ? t("sessions.unknown") : clientName(session.client);
  const others = sessions.data?.some((session) => !session.current) ?? false;
  return (
    <Section
      title={t("sessions.title")}
      lead={t("sessions.lead")}
      actions={
        others ? (
          <ActionButton small act={() => calls.endOtherSessions().then(refetch)} done={t("sessions.othersEnded")}>
            {t("sessions.endOthers")}
          </ActionButton>
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
                  <ActionButton
                    small
                    aria-label={t("sessions.endOf", { client: nameOf(session) })}
                    act={() => calls.endSession(session.name).then(refetch)}
                    done={t("sessions.ended")}
                  >
                    {t("sessions.end")}
                  </ActionButton>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Section>
  );
}

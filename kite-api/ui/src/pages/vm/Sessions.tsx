import { useAccount, useVmSessions } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { useT } from "../../i18n";
import { mayManage } from "../../lib/may";
import { SessionTable } from "../sessions/SessionTable";

/** Who is in the VM, and who was. */
export default function Sessions({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  const mayEnd = mayManage(me, vm);
  const query = useVmSessions({ name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner });
  return (
    <Loaded query={query}>
      {(sessions) => (
        <div className="stack">
          <Section title={t("vmSessions.live")} lead={t("vmSessions.liveLead")}>
            <SessionTable
              label={t("vmSessions.live")}
              sessions={sessions.filter((it) => it.live)}
              empty={t("vmSessions.nobody")}
              live
              mayEnd={mayEnd}
            />
          </Section>
          <Section title={t("vmSessions.past")} lead={t("vmSessions.pastLead")}>
            <SessionTable
              label={t("vmSessions.past")}
              sessions={sessions.filter((it) => !it.live)}
              empty={t("vmSessions.noPast")}
              live={false}
              mayEnd={mayEnd}
            />
          </Section>
        </div>
      )}
    </Loaded>
  );
}

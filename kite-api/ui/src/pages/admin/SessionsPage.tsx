import { useDeferredValue, useState } from "react";
import { useAllSessions } from "../../api/queries";
import { Loaded } from "../../components/Loaded";
import { Page, Section } from "../../components/Page";
import { Search } from "../../components/Search";
import { useT } from "../../i18n";
import { SessionTable } from "../sessions/SessionTable";

/** Who is connected to any VM, and who was. */
export default function SessionsPage() {
  const t = useT();
  const [text, setText] = useState("");
  const search = useDeferredValue(text.trim());
  const empty = (none: string) => (search ? t("search.nothing", { text: search }) : none);
  return (
    <Page
      title={t("nav.sessions")}
      lead={t("vmSessions.allLead")}
      actions={<Search label={t("search.sessions")} value={text} onChange={setText} />}
    >
      <div className="stack">
        <Part title={t("vmSessions.live")} live search={search} empty={empty(t("vmSessions.nobody"))} />
        <Part title={t("vmSessions.past")} live={false} search={search} empty={empty(t("vmSessions.noPast"))} />
      </div>
    </Page>
  );
}

function Part({ title, live, search, empty }: { title: string; live: boolean; search: string; empty: string }) {
  const t = useT();
  const query = useAllSessions(live, search);
  const { items, total } = query.data ?? { items: [], total: 0 };
  const some = t("vmSessions.some", { count: items.length, total });
  return (
    <Section title={title} {...(items.length < total ? { lead: some } : {})}>
      <Loaded query={query}>
        {({ items }) => <SessionTable label={title} sessions={items} empty={empty} live={live} ofAll mayEnd />}
      </Loaded>
    </Section>
  );
}

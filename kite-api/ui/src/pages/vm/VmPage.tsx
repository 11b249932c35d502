import { lazy, Suspense } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components/Tabs";
import { useAccount, useVm } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Empty } from "../../components/Empty";
import { Loaded, Loading } from "../../components/Loaded";
import { Page } from "../../components/Page";
import { isMissing } from "../../api/problem";
import { useT, type Key } from "../../i18n";
import { mayEnter, mayManage } from "../../lib/may";
import { useVmState } from "../../lib/use-vm-state";
import { Overview } from "./Overview";
import { PowerButtons } from "./PowerButtons";
import { Settings } from "./Settings";

const Sessions = lazy(() => import("./Sessions"));
const Console = lazy(() => import("./console/Console"));

const TABS = ["overview", "terminal", "screen", "serial", "sessions", "settings"] as const;
type TabName = (typeof TABS)[number];

/** Everything about one VM. */
export default function VmPage() {
  const t = useT();
  const { name = "", owner } = useParams();
  const query = useVm(name, owner);
  const gone = (query.isSuccess && query.data === undefined) || isMissing(query.error);
  if (gone) {
    return (
      <Page title={name}>
        <Empty title={t("vm.gone")} action={<Link to={owner ? "/admin/vms" : "/"}>{t("vm.backToList")}</Link>}>
          {t("vm.goneHint", { name })}
        </Empty>
      </Page>
    );
  }
  return <Loaded query={query}>{(vm) => (vm ? <OneVm vm={vm} key={vm.uid} /> : <Loading />)}</Loaded>;
}

function OneVm({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  const [search, setSearch] = useSearchParams();
  const state = useVmState().stateOf(vm);
  const asked = search.get("tab");
  const enter = mayEnter(me, vm);
  const tabs = TABS.filter((tab) => tab === "overview" || tab === "sessions" || (tab === "settings" ? mayManage(me, vm) : enter));
  const tab: TabName = tabs.find((tab) => tab === asked) ?? "overview";
  const choose = (next: string) => setSearch(next === "overview" ? {} : { tab: next }, { replace: true });
  const foreign = vm.owner !== me.name;

  return (
    <Page
      title={vm.name}
      lead={
        <>
          <Badge tone={state.tone}>{t(state.label)}</Badge>
          {foreign && <span className="owner">{t("vm.ownedBy", { owner: vm.owner })}</span>}
        </>
      }
      actions={mayManage(me, vm) && !vm.deleting ? <PowerButtons vm={vm} /> : undefined}
    >
      <Tabs className="tabs" selectedKey={tab} onSelectionChange={(key) => choose(String(key))}>
        <TabList aria-label={t("vm.tabs")} className="tab-list">
          {tabs.map((tab) => (
            <Tab key={tab} id={tab} className="tab">
              {t(`tab.${tab}` as Key)}
            </Tab>
          ))}
        </TabList>
        <TabPanel id="overview" className="tab-panel">
          <Overview vm={vm} />
        </TabPanel>
        {(["terminal", "screen", "serial"] as const).map((kind) => (
          <TabPanel key={kind} id={kind} className="tab-panel">
            <Suspense fallback={<Loading />}>
              <Console vm={vm} kind={kind} />
            </Suspense>
          </TabPanel>
        ))}
        <TabPanel id="sessions" className="tab-panel">
          <Suspense fallback={<Loading />}>
            <Sessions vm={vm} />
          </Suspense>
        </TabPanel>
        <TabPanel id="settings" className="tab-panel">
          <Settings vm={vm} />
        </TabPanel>
      </Tabs>
    </Page>
  );
}

import { lazy, Suspense, useCallback, useRef, useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components/Tabs";
import { useAccount, useVm } from "../../api/queries";
import type { Vm } from "../../api/types";
import { AskBeforeLeaving } from "../../components/AskBeforeLeaving";
import { Badge } from "../../components/Badge";
import { Empty } from "../../components/Empty";
import { Loaded, Loading } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Unreadable } from "../../components/Unreadable";
import { isMissing } from "../../api/problem";
import { useT, type Key } from "../../i18n";
import { hasEdits } from "../../lib/edited";
import { haveRefusals } from "../../lib/refusals";
import { mayEnter, mayManage } from "../../lib/may";
import { useVmState } from "../../lib/use-vm-state";
import { asOfOwner } from "../../lib/vm";
import { Overview } from "./Overview";
import { PowerButtons } from "./PowerButtons";
import { VmNotice } from "./VmNotice";

const Sessions = lazy(() => import("./Sessions"));
const Snapshots = lazy(() => import("./Snapshots"));
const Settings = lazy(() => import("./Settings"));
/** Why a console is over comes as no answer to a request: the words for it are had before. */
const Console = lazy(async () => (await Promise.all([import("./console/Console"), haveRefusals()]))[0]);

const TABS = ["overview", "terminal", "screen", "serial", "sessions", "snapshots", "settings"] as const;
type TabName = (typeof TABS)[number];
/** For everybody who sees the VM. */
const FOR_ALL: ReadonlySet<TabName> = new Set(["overview", "sessions", "snapshots"]);
const CONSOLES = ["terminal", "screen", "serial"] as const;
type ConsoleName = (typeof CONSOLES)[number];

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
  return <Loaded query={query}>{(vm) => (vm ? <OneVm vm={asOfOwner(vm)} key={vm.uid} /> : <Loading />)}</Loaded>;
}

/** On a phone there is more of the row of tabs than is seen. */
const intoSight = (tab: Element | null) => tab?.scrollIntoView({ block: "nearest", inline: "center" });

function OneVm({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  const [search, setSearch] = useSearchParams();
  const state = useVmState().stateOf(vm);
  const asked = search.get("tab");
  const enter = mayEnter(me, vm);
  const tabs = TABS.filter((tab) => FOR_ALL.has(tab) || (tab === "settings" ? mayManage(me, vm) : enter));
  const tab: TabName = tabs.find((tab) => tab === asked) ?? "overview";
  const choose = (next: string) => setSearch(next === "overview" ? {} : { tab: next }, { replace: true });
  const foreign = vm.owner !== me.name;

  // Consoles stay connected and edits stay while another tab is looked at.
  const [seen, setSeen] = useState<ReadonlySet<TabName>>(new Set());
  if (!seen.has(tab)) setSeen(new Set([...seen, tab]));
  const [live, setLive] = useState<readonly ConsoleName[]>([]);
  const onLive = useCallback((console: ConsoleName, isLive: boolean) => {
    setLive((before) => {
      const others = before.filter((other) => other !== console);
      return isLive ? [...others, console] : others;
    });
  }, []);
  const settings = useRef<HTMLDivElement>(null);
  const snapshots = useRef<HTMLDivElement>(null);
  const isDeleted = useRef(false);
  const losses = useCallback(() => {
    if (isDeleted.current) return [];
    const consoles = live.map((console) => t(`tab.${console}`)).join(", ");
    const isShell = live.includes("terminal");
    const isEdited = [settings, snapshots].some(({ current }) => current !== null && hasEdits(current));
    return [...(consoles ? [t(isShell ? "leave.terminal" : "leave.consoles", { consoles })] : []), ...(isEdited ? [t("leave.edits")] : [])];
  }, [live, t]);

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
      {vm.unreadable !== undefined && (
        <Notice tone="bad" isStanding>
          <Unreadable why={vm.unreadable} />
        </Notice>
      )}
      <VmNotice vm={vm} />
      <Tabs className="tabs" selectedKey={tab} onSelectionChange={(key) => choose(String(key))}>
        <TabList aria-label={t("vm.tabs")} className="tab-list">
          {tabs.map((it) => (
            <Tab key={it} id={it} className="tab" ref={it === tab ? intoSight : null}>
              {t(`tab.${it}` as Key)}
              {live.some((console) => console === it) && (
                <span className="tab-live">
                  <span className="visually-hidden">{t("console.live")}</span>
                </span>
              )}
            </Tab>
          ))}
        </TabList>
        <TabPanel id="overview" className="tab-panel">
          <Overview vm={vm} />
        </TabPanel>
        {CONSOLES.map((kind) => (
          <TabPanel key={kind} id={kind} className="tab-panel" shouldForceMount={enter && seen.has(kind)}>
            <Suspense fallback={<Loading />}>
              <Console vm={vm} kind={kind} onLive={onLive} />
            </Suspense>
          </TabPanel>
        ))}
        <TabPanel id="sessions" className="tab-panel">
          <Suspense fallback={<Loading />}>
            <Sessions vm={vm} />
          </Suspense>
        </TabPanel>
        <TabPanel id="snapshots" className="tab-panel" shouldForceMount={seen.has("snapshots")} ref={snapshots}>
          <Suspense fallback={<Loading />}>
            <Snapshots vm={vm} />
          </Suspense>
        </TabPanel>
        <TabPanel id="settings" className="tab-panel" shouldForceMount={seen.has("settings")} ref={settings}>
          <Suspense fallback={<Loading />}>
            <Settings
              vm={vm}
              onDelete={() => {
                isDeleted.current = true;
              }}
            />
          </Suspense>
        </TabPanel>
      </Tabs>
      <AskBeforeLeaving losses={losses} />
    </Page>
  );
}

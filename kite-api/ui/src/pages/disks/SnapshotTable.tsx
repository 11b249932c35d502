import History from "lucide-react/icons/history";
import Pencil from "lucide-react/icons/pencil";
import Plus from "lucide-react/icons/plus";
import Trash2 from "lucide-react/icons/trash-2";
import { lazy, Suspense, useState, type ReactNode } from "react";
import { Link } from "react-router";
import * as calls from "../../api/calls";
import { refetchDisks, useAccount, useVms } from "../../api/queries";
import type { Snapshot, Vm } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Table, type Column } from "../../components/Table";
import { Unreadable } from "../../components/Unreadable";
import { When } from "../../components/When";
import { useI18n } from "../../i18n";
import { mayCreate, mayManage } from "../../lib/may";
import { sizeText } from "../../lib/sizes";
import { vmPath } from "../../lib/vm";
import { isUsable, newestFirst, SNAPSHOT_TONES, toldOf } from "./states";
import { Told } from "./Told";

const EditSnapshot = lazy(() => import("./EditSnapshot"));
const RestoreVm = lazy(() => import("./RestoreVm"));
const VmFromSnapshot = lazy(() => import("./VmFromSnapshot"));

interface Props {
  label: string;
  snapshots: readonly Snapshot[];
  empty: ReactNode;
  /** The VM that all of them are of; without it, each says of which it is. */
  vm?: Vm;
}

/** What is asked of the snapshot with this uid. */
type Asked = { what: "restore" | "edit" | "delete" | "vm"; uid: string } | null;

/** Whether it is of this very VM, and not of an earlier one of its name. */
const isOf = ({ status }: Snapshot, vm: Vm): boolean => status.source === undefined || status.source.vmUid === vm.uid;

/** Snapshots, the newest first, and what can be done with each. */
export function SnapshotTable({ label, snapshots, empty, vm }: Props) {
  const { t, tag } = useI18n();
  const me = useAccount();
  const vms = useVms().data;
  const [asked, setAsked] = useState<Asked>(null);
  const ask = (what: NonNullable<Asked>["what"], { uid }: Snapshot) => () => setAsked({ what, uid });
  const may = (it: Snapshot) => (vm === undefined ? mayCreate(me) : mayManage(me, vm)) && !it.deleting;
  const isThere = (it: Snapshot) => vms?.some(({ name }) => name === it.vm) ?? false;
  const ofVm: Column<Snapshot> = {
    title: t("vmSessions.vm"),
    cell: (it) => (isThere(it) ? <Link to={`${vmPath({ name: it.vm, owner: it.owner }, me.name)}?tab=snapshots`}>{it.vm}</Link> : it.vm),
  };
  const columns: readonly Column<Snapshot>[] = [
    {
      title: t("vm.name"),
      head: true,
      cell: (it) => (
        <>
          {it.name} {it.description !== undefined && <small className="under">{it.description}</small>}
          {it.scheduled && <small className="under">{t("snapshot.scheduled")}</small>}
          {vm !== undefined && !isOf(it, vm) && <small className="under">{t("snapshot.former")}</small>}
        </>
      ),
    },
    ...(vm === undefined ? [ofVm] : []),
    {
      title: t("snapshot.shows"),
      cell: ({ status, createdAt }) => {
        const time = status.takenAt ?? createdAt;
        return time === undefined ? "–" : <When time={time} is="past" />;
      },
    },
    {
      title: t("vm.state"),
      cell: (it) => (
        <>
          <Badge tone={it.unreadable === undefined ? SNAPSHOT_TONES[it.status.phase] : "bad"}>
            {t(`disk.phase.${it.status.phase === "Freezing" ? "Cutting" : it.status.phase}`)}
          </Badge>
          <State snapshot={it} tag={tag} />
          <Unreadable why={it.unreadable} />
        </>
      ),
    },
    { title: t("quota.disk"), cell: ({ status }) => (status.size === undefined ? "–" : sizeText(status.size)) },
    { title: t("snapshot.kept"), cell: (it) => <Kept snapshot={it} /> },
    {
      title: t("actions"),
      actions: true,
      cell: (it) => {
        const { name } = it;
        return (
          may(it) && (
            <>
              {vm !== undefined && !vm.deleting && isOf(it, vm) && isUsable(it) && (
                <Button small icon={<History aria-hidden />} aria-label={t("restore.of", { name })} onPress={ask("restore", it)}>
                  {t("restore.open")}
                </Button>
              )}
              {isUsable(it) && it.owner === me.name && (
                <Button small icon={<Plus aria-hidden />} aria-label={t("snapshot.vmOf", { name })} onPress={ask("vm", it)}>
                  {t("snapshot.vm")}
                </Button>
              )}
              <Button small icon={<Pencil aria-hidden />} aria-label={t("edit.of", { name })} onPress={ask("edit", it)}>
                {t("edit")}
              </Button>
              {!it.protected && (
                <Button small icon={<Trash2 aria-hidden />} aria-label={t("delete.of", { name })} onPress={ask("delete", it)}>
                  {t("delete")}
                </Button>
              )}
            </>
          )
        );
      },
    },
  ];
  const close = () => setAsked(null);
  // As it is now: somebody else may edit it, too.
  const snapshot = snapshots.find(({ uid }) => uid === asked?.uid);
  const deleted = asked?.what === "delete" ? snapshot : undefined;
  return (
    <>
      <Table label={label} columns={columns} rows={newestFirst(snapshots)} rowKey={(it) => it.uid} empty={empty} />
      <Suspense>
        {snapshot !== undefined && (
          <>
            {asked?.what === "restore" && vm !== undefined && <RestoreVm vm={vm} snapshot={snapshot} onClose={close} />}
            {asked?.what === "edit" && <EditSnapshot snapshot={snapshot} onClose={close} />}
            {asked?.what === "vm" && <VmFromSnapshot snapshot={snapshot} onClose={close} />}
          </>
        )}
      </Suspense>
      <Confirm
        name={deleted?.name ?? ""}
        title={t("delete.ask", { name: deleted?.name ?? "" })}
        submit={t("delete")}
        consequence={t("snapshot.deleteConsequence")}
        done={t("delete.done", { name: deleted?.name ?? "" })}
        isOpen={deleted !== undefined}
        onClose={close}
        send={async () => {
          if (deleted === undefined) return;
          await calls.deleteSnapshot({ name: deleted.name, owner: deleted.owner === me.name ? undefined : deleted.owner });
          await refetchDisks();
        }}
      />
    </>
  );
}

/** What is known of what is in it, or why there is nothing. */
function State({ snapshot: { status, ...rest }, tag }: { snapshot: Snapshot; tag: string }) {
  const { t } = useI18n();
  if (status.phase === "Ready") {
    if (status.consistency === undefined) return null;
    return (
      <>
        <small className="under">{t(`snapshot.consistency.${status.consistency}`)}</small>
        <Told words={status.consistencyNote} />
      </>
    );
  }
  return <Told words={toldOf({ ...rest, status }, tag)} />;
}

/** For how long it is kept. */
function Kept({ snapshot: { protected: isProtected, keepUntil, scheduled } }: { snapshot: Snapshot }) {
  const { t } = useI18n();
  if (isProtected) return <Badge tone="good">{t("snapshot.protected")}</Badge>;
  if (keepUntil !== undefined) return <When time={keepUntil} />;
  return t(scheduled ? "snapshot.bySchedule" : "snapshot.withVm");
}

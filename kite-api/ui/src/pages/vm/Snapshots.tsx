import Camera from "lucide-react/icons/camera";
import Undo2 from "lucide-react/icons/undo-2";
import { lazy, Suspense, useState } from "react";
import * as calls from "../../api/calls";
import { putVm, useAccount, useSnapshots } from "../../api/queries";
import type { Vm } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { useT } from "../../i18n";
import { mayManage } from "../../lib/may";
import { sizeText } from "../../lib/sizes";
import { useVmState } from "../../lib/use-vm-state";
import { condition } from "../../lib/vm";
import { SnapshotTable } from "../disks/SnapshotTable";
import { Schedule } from "./Schedule";
import { Why } from "./Why";

const TakeSnapshot = lazy(() => import("../disks/TakeSnapshot"));
const RestoreVm = lazy(() => import("../disks/RestoreVm"));

/** The snapshots of a VM, what was restored of them, and when they are taken. */
export default function Snapshots({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  const may = mayManage(me, vm) && !vm.deleting;
  const snapshots = useSnapshots(vm.owner === me.name ? undefined : vm.owner, vm.name);
  const [taking, setTaking] = useState(false);
  return (
    <div className="stack">
      <Restored vm={vm} may={may} />
      <Section
        title={t("snapshots.title")}
        lead={t("snapshots.lead")}
        actions={
          may ? (
            <Button look="primary" icon={<Camera aria-hidden />} onPress={() => setTaking(true)}>
              {t("snapshot.take")}
            </Button>
          ) : undefined
        }
      >
        <Loaded query={snapshots}>
          {(snapshots) => <SnapshotTable label={t("snapshots.title")} snapshots={snapshots} empty={t("snapshots.empty")} vm={vm} />}
        </Loaded>
      </Section>
      {(vm.status.formerDisks ?? []).length > 0 && <FormerDisks vm={vm} may={may} />}
      <Schedule vm={vm} may={may} />
      {taking && (
        <Suspense>
          <TakeSnapshot vm={vm} onClose={() => setTaking(false)} />
        </Suspense>
      )}
    </div>
  );
}

/** How the last restore stands that was asked for. */
function Restored({ vm, may }: { vm: Vm; may: boolean }) {
  const t = useT();
  const me = useAccount();
  const { standingsOf } = useVmState();
  const restored = condition(vm, "Restored");
  if (vm.restore === undefined || restored === undefined) return null;
  const isDone = restored.status === "True" && vm.status.upToDate;
  const tone = vm.status.upToDate ? (standingsOf(vm).get("Restored") ?? "busy") : "busy";
  const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
  return (
    <Notice tone={tone} isStanding>
      {vm.status.upToDate ? <Why vm={vm} condition={restored} tone={tone} /> : t("restore.begun", { name: vm.name })}
      {!isDone && may && (
        <p>
          <ActionButton small act={async () => putVm(await calls.cancelRestore(ref))} done={t("restore.canceled")}>
            {t("restore.cancel")}
          </ActionButton>
        </p>
      )}
    </Notice>
  );
}

type FormerDisk = NonNullable<Vm["status"]["formerDisks"]>[number];

/** Disks from before a restore, for as long as they are kept. */
function FormerDisks({ vm, may }: { vm: Vm; may: boolean }) {
  const t = useT();
  const [asked, setAsked] = useState<string | null>(null);
  const columns: readonly Column<FormerDisk>[] = [
    { title: t("vm.name"), head: true, cell: ({ name }) => name },
    { title: t("quota.disk"), cell: ({ size }) => (size === undefined ? "–" : sizeText(size)) },
    {
      title: t("snapshot.kept"),
      cell: ({ keptUntil, neededBySnapshots }) => {
        if (neededBySnapshots === true) return t("former.needed");
        return keptUntil === undefined ? t("former.kept") : <When time={keptUntil} />;
      },
    },
    {
      title: t("actions"),
      actions: true,
      cell: ({ name }) =>
        may && (
          <Button small icon={<Undo2 aria-hidden />} aria-label={t("restore.backOf", { name })} onPress={() => setAsked(name)}>
            {t("restore.back")}
          </Button>
        ),
    },
  ];
  return (
    <Section title={t("former.title")} lead={t("former.lead")}>
      <Table label={t("former.title")} columns={columns} rows={vm.status.formerDisks ?? []} rowKey={({ name }) => name} empty="" />
      {asked !== null && (
        <Suspense>
          <RestoreVm vm={vm} disk={asked} onClose={() => setAsked(null)} />
        </Suspense>
      )}
    </Section>
  );
}

import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Snapshot, Vm } from "../../api/types";
import { Confirm } from "../../components/Confirm";
import { Select } from "../../components/Select";
import { useI18n } from "../../i18n";
import { duration } from "../../lib/span";
import { dateTime } from "../../lib/time";
import { isRunning } from "../../lib/vm";

/** For how long the disk as it is now is kept. */
const KEEP = ["24h", "72h", "168h", "720h"] as const;

interface Props {
  vm: Vm;
  /** What the disk is made from; without it, a former disk is put back. */
  snapshot?: Snapshot;
  disk?: string;
  onClose: () => void;
}

const HOUR = /^(\d+)h$/;

/** Those to choose from, and first how long the disks from before are kept by now: they are kept
 * no shorter unless somebody says so. */
function choices(vm: Vm): readonly string[] {
  const now = (vm.status.formerDisks ?? []).length > 0 ? vm.restore?.keep : undefined;
  if (now === undefined) return KEEP;
  const hours = (span: string) => Number(HOUR.exec(span)?.[1] ?? 0);
  const others = KEEP.filter((it) => it !== now);
  return [now, ...others].sort((a, b) => hours(a) - hours(b));
}

/** Asks before a VM's disk is another: what goes by that, and until when it can be taken back. */
export default function RestoreVm({ vm, snapshot, disk, onClose }: Props) {
  const { t, tag } = useI18n();
  const me = useAccount();
  const { name } = vm;
  const keeps = choices(vm);
  const usual = (vm.status.formerDisks ?? []).length > 0 ? (vm.restore?.keep ?? KEEP[0]) : KEEP[0];
  const taken = snapshot?.status.takenAt ?? snapshot?.createdAt;
  const time = taken === undefined ? "–" : dateTime(taken, tag);
  return (
    <Confirm
      title={snapshot === undefined ? t("restore.askBack", { name }) : t("restore.ask", { name, snapshot: snapshot.name })}
      submit={t(snapshot === undefined ? "restore.back" : "restore.submit")}
      consequence={
        <>
          {snapshot === undefined ? t("restore.consequenceBack", { disk: disk ?? "" }) : t("restore.consequence", { time })}{" "}
          {t(isRunning(vm) ? "restore.restarts" : "restore.staysOff")}
        </>
      }
      done={t("restore.begun", { name })}
      isOpen
      onClose={onClose}
      send={async (data) => {
        const keep = String(data.get("keep") ?? usual);
        const ref = { name, owner: vm.owner === me.name ? undefined : vm.owner };
        // Where the answer is lost, asking again is no second restore.
        putVm(await calls.restoreVm(ref, { snapshot: snapshot?.name, disk, keep }, vm.etag));
      }}
    >
      {snapshot?.status.consistency === "CrashConsistent" && <p className="quiet-text">{t("restore.crash")}</p>}
      <Select
        name="keep"
        label={t("restore.keep")}
        hint={t("restore.keepHint")}
        defaultValue={usual}
        options={keeps.map((value) => ({ value, text: duration(value, tag) }))}
      />
    </Confirm>
  );
}

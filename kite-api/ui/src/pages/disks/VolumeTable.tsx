import Pencil from "lucide-react/icons/pencil";
import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import { Link } from "react-router";
import { useAccount, useVms } from "../../api/queries";
import type { Volume } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Table, type Column } from "../../components/Table";
import { Unreadable } from "../../components/Unreadable";
import { useI18n } from "../../i18n";
import { mayCreate } from "../../lib/may";
import { sizeText } from "../../lib/sizes";
import { vmPath, volumesOf } from "../../lib/vm";
import { DeleteVolume } from "./DeleteVolume";
import { Told } from "./Told";
import { EditVolume } from "./VolumeDialogs";
import { toldOf, VOLUME_TONES } from "./states";

/** The account's own volumes, and what can be done with each. */
export function VolumeTable({ volumes }: { volumes: readonly Volume[] }) {
  const { t, tag } = useI18n();
  const me = useAccount();
  const vms = useVms().data ?? [];
  /** What is asked of the volume with this uid. */
  const [asked, setAsked] = useState<{ what: "edit" | "delete"; uid: string } | null>(null);
  const close = () => setAsked(null);
  // As it is now: somebody else may edit it, too.
  const volume = volumes.find(({ uid }) => uid === asked?.uid);
  const deleted = asked?.what === "delete" ? volume : undefined;
  /** The VM that has it, or is to have it. */
  const vmOf = ({ name, status }: Volume) =>
    vms.find((vm) => volumesOf(vm).some(({ volume }) => volume === name))?.name ?? status.attachedTo?.vm;
  const columns: readonly Column<Volume>[] = [
    {
      title: t("vm.name"),
      head: true,
      cell: ({ name, description, onAccountDeletion }) => (
        <>
          {name} {description !== undefined && <small className="under">{description}</small>}
          {onAccountDeletion === "Keep" && <small className="under">{t("volume.outlived")}</small>}
        </>
      ),
    },
    {
      title: t("vm.state"),
      cell: (it) => {
        const told = it.status.phase === "Deleting" || VOLUME_TONES[it.status.phase] !== "good" ? toldOf(it, tag) : undefined;
        return (
          <>
            <Badge tone={it.unreadable === undefined ? VOLUME_TONES[it.status.phase] : "bad"}>
              {t(`disk.phase.${it.status.phase}`)}
            </Badge>
            <Told words={told} />
            <Unreadable why={it.unreadable} />
          </>
        );
      },
    },
    {
      title: t("quota.disk"),
      cell: ({ size, status }) => (
        <>
          {sizeText(status.size ?? size)}
          {status.size !== undefined && status.size !== size && <small className="under">{t("volume.grows", { size: sizeText(size) })}</small>}
        </>
      ),
    },
    {
      title: t("vmSessions.vm"),
      cell: (it) => {
        const vm = vmOf(it);
        return vm === undefined ? "–" : <Link to={vmPath({ name: vm, owner: it.owner }, me.name)}>{vm}</Link>;
      },
    },
    {
      title: t("actions"),
      actions: true,
      cell: (it) =>
        mayCreate(me) &&
        !it.deleting && (
          <>
            <Button small icon={<Pencil aria-hidden />} aria-label={t("edit.of", { name: it.name })} onPress={() => setAsked({ what: "edit", uid: it.uid })}>
              {t("edit")}
            </Button>
            {vmOf(it) === undefined && (
              <Button small icon={<Trash2 aria-hidden />} aria-label={t("delete.of", { name: it.name })} onPress={() => setAsked({ what: "delete", uid: it.uid })}>
                {t("delete")}
              </Button>
            )}
          </>
        ),
    },
  ];
  return (
    <>
      <Table label={t("volumes.title")} columns={columns} rows={volumes} rowKey={(it) => it.uid} empty={t("volumes.empty")} />
      {asked?.what === "edit" && volume !== undefined && <EditVolume volume={volume} onClose={close} />}
      <DeleteVolume volume={deleted} onClose={close} />
    </>
  );
}

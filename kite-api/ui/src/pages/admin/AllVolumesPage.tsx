import Pencil from "lucide-react/icons/pencil";
import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import { useAccount, useAllVolumes, useUsers } from "../../api/queries";
import type { Volume } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Loaded } from "../../components/Loaded";
import { Page } from "../../components/Page";
import { Search } from "../../components/Search";
import { Table, type Column } from "../../components/Table";
import { Unreadable } from "../../components/Unreadable";
import { useI18n } from "../../i18n";
import { mayManageOthers } from "../../lib/may";
import { sizeText } from "../../lib/sizes";
import { DeleteVolume } from "../disks/DeleteVolume";
import { Told } from "../disks/Told";
import { EditVolume } from "../disks/VolumeDialogs";
import { toldOf, VOLUME_TONES } from "../disks/states";

/** Everybody's volumes, first of all those that deleted accounts have left. */
export default function AllVolumesPage() {
  const { t, tag } = useI18n();
  const volumes = useAllVolumes();
  const users = useUsers().data ?? [];
  const may = mayManageOthers(useAccount());
  const [text, setText] = useState("");
  /** What is asked of the volume with this uid. */
  const [asked, setAsked] = useState<{ what: "edit" | "delete"; uid: string } | null>(null);
  const close = () => setAsked(null);
  const volume = volumes.data?.find(({ uid }) => uid === asked?.uid);
  const isLeft = ({ owner }: Volume) => users.some(({ name, deleting }) => name === owner && deleting);
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
      title: t("vm.owner"),
      cell: (it) => (
        <>
          {it.owner} {isLeft(it) && <Badge tone="warn">{t("volume.left")}</Badge>}
        </>
      ),
    },
    {
      title: t("vm.state"),
      cell: (it) => (
        <>
          <Badge tone={it.unreadable === undefined ? VOLUME_TONES[it.status.phase] : "bad"}>{t(`disk.phase.${it.status.phase}`)}</Badge>
          <Told words={VOLUME_TONES[it.status.phase] === "good" ? undefined : toldOf(it, tag)} />
          <Unreadable why={it.unreadable} />
        </>
      ),
    },
    { title: t("quota.disk"), cell: ({ size, status }) => sizeText(status.size ?? size) },
    { title: t("vmSessions.vm"), cell: ({ status }) => status.attachedTo?.vm ?? "–" },
    {
      title: t("actions"),
      actions: true,
      cell: (it) =>
        may &&
        !it.deleting && (
          <>
            <Button small icon={<Pencil aria-hidden />} aria-label={t("edit.of", { name: it.name })} onPress={() => setAsked({ what: "edit", uid: it.uid })}>
              {t("edit")}
            </Button>
            {it.status.attachedTo === undefined && (
              <Button small icon={<Trash2 aria-hidden />} aria-label={t("delete.of", { name: it.name })} onPress={() => setAsked({ what: "delete", uid: it.uid })}>
                {t("delete")}
              </Button>
            )}
          </>
        ),
    },
  ];
  const wanted = (it: Volume) =>
    [it.name, it.owner, it.description ?? ""].some((word) => word.toLowerCase().includes(text.trim().toLowerCase()));
  const sorted = (all: readonly Volume[]) => [...all].sort((a, b) => Number(isLeft(b)) - Number(isLeft(a)));
  return (
    <Page
      title={t("nav.allVolumes")}
      lead={t("admin.allVolumesLead")}
      actions={<Search label={t("search.volumes")} value={text} onChange={setText} />}
    >
      <section className="card">
        <Loaded query={volumes}>
          {(volumes) => (
            <Table
              label={t("nav.allVolumes")}
              columns={columns}
              rows={sorted(volumes).filter(wanted)}
              rowKey={(it) => it.uid}
              empty={text === "" ? t("admin.noVolumes") : t("search.nothing", { text })}
            />
          )}
        </Loaded>
      </section>
      {asked?.what === "edit" && volume !== undefined && <EditVolume volume={volume} owner={volume.owner} onClose={close} />}
      <DeleteVolume volume={asked?.what === "delete" ? volume : undefined} owner={volume?.owner} onClose={close} />
    </Page>
  );
}

import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import { useAccount, useSnapshots, useVolumes } from "../../api/queries";
import { Button } from "../../components/Button";
import { Loaded } from "../../components/Loaded";
import { Page, Section } from "../../components/Page";
import { useT } from "../../i18n";
import { mayCreate } from "../../lib/may";
import { SnapshotTable } from "./SnapshotTable";
import { NewVolume } from "./VolumeDialogs";
import { VolumeTable } from "./VolumeTable";

/** Disks of the account beside those of its VMs, and all its snapshots: also those of VMs that
 * are gone. */
export default function DisksPage() {
  const t = useT();
  const me = useAccount();
  const volumes = useVolumes(undefined);
  const snapshots = useSnapshots(undefined);
  const [creating, setCreating] = useState(false);
  return (
    <Page title={t("disks.title")}>
      <Section
        title={t("volumes.title")}
        lead={t("volumes.lead")}
        actions={
          mayCreate(me) ? (
            <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
              {t("volumes.new")}
            </Button>
          ) : undefined
        }
      >
        <Loaded query={volumes}>{(volumes) => <VolumeTable volumes={volumes} />}</Loaded>
      </Section>
      <Section title={t("snapshots.title")} lead={t("snapshots.allLead")}>
        <Loaded query={snapshots}>
          {(snapshots) => <SnapshotTable label={t("snapshots.title")} snapshots={snapshots} empty={t("snapshots.none")} />}
        </Loaded>
      </Section>
      {creating && <NewVolume onClose={() => setCreating(false)} />}
    </Page>
  );
}

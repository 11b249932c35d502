import { lazy, Suspense } from "react";
import { Link } from "react-router";
import { isMissing } from "../../api/problem";
import { useVms, useVolumes } from "../../api/queries";
import type { Sent, Vm, Volume } from "../../api/types";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { useT } from "../../i18n";
import { volumesOf } from "../../lib/vm";

/** Most people have no volumes. */
const VolumesForm = lazy(() => import("./VolumesForm"));

interface Props {
  vm: Vm;
  /** Absent for one's own VM. */
  owner: string | undefined;
  edit: (body: Sent<"VmEdit">) => Promise<unknown>;
}

/** Which volumes a VM has, and where its guest mounts them. */
export function VolumesSection({ vm, owner, edit }: Props) {
  const t = useT();
  const volumes = useVolumes(owner);
  // An older API knows of none.
  if (isMissing(volumes.error)) return null;
  return (
    <Section title={t("volumes.title")} lead={t("volumes.ofVm")}>
      <Loaded query={volumes}>{(volumes) => <Volumes vm={vm} owner={owner} edit={edit} volumes={volumes} />}</Loaded>
    </Section>
  );
}

function Volumes({ vm, owner, edit, volumes }: Props & { volumes: readonly Volume[] }) {
  const t = useT();
  const known = useKnown(vm, volumes);
  if (known.length > 0) {
    return (
      <Suspense>
        <VolumesForm vm={vm} known={known} edit={edit} />
      </Suspense>
    );
  }
  return (
    <p className="quiet-text">
      {t("volumes.noneFree")} {owner === undefined && <Link to="/disks">{t("disks.title")}</Link>}
    </p>
  );
}

/** The volumes that a VM has, and those that it could have: no other VM has one of them, as far
 * as is known here. */
function useKnown(vm: Vm, volumes: readonly Volume[]): string[] {
  const vms = useVms().data ?? [];
  const others = vms.filter((it) => it.uid !== vm.uid && it.owner === vm.owner);
  const taken = new Set(others.flatMap((it) => volumesOf(it).map(({ volume }) => volume)));
  const isFree = ({ name, deleting, status }: Volume) =>
    !deleting && !taken.has(name) && (status.attachedTo === undefined || status.attachedTo.uid === vm.uid);
  const own = volumesOf(vm).map(({ volume }) => volume);
  return [...new Set([...own, ...volumes.filter(isFree).map(({ name }) => name)])];
}

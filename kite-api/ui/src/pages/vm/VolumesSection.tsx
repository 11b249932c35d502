import Plus from "lucide-react/icons/plus";
import X from "lucide-react/icons/x";
import { useContext, useState } from "react";
import { Link } from "react-router";
import { isMissing } from "../../api/problem";
import { useVms, useVolumes } from "../../api/queries";
import type { Sent, Vm, Volume } from "../../api/types";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { Corrected } from "../../components/field-errors";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";
import { volumesOf } from "../../lib/vm";

/** What the API allows for one VM. */
const MOST = 8;

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
  const had = volumesOf(vm);
  const [rows, setRows] = useState<readonly Row[]>(() => had.map(({ volume, path }, at) => ({ at, volume, path })));
  const send = async (data: FormData) => {
    const wanted = rows.map(({ volume }, index) => attachment(volume, given(data, `volumes[${index}].path`)));
    const before = had.map(({ volume, path }) => attachment(volume, path));
    await edit(JSON.stringify(wanted) === JSON.stringify(before) ? {} : { volumes: wanted });
  };
  if (known.length === 0) {
    return (
      <p className="quiet-text">
        {t("volumes.noneFree")} {owner === undefined && <Link to="/disks">{t("disks.title")}</Link>}
      </p>
    );
  }
  return (
    <Form submit={t("save")} send={send}>
      <Rows rows={rows} setRows={setRows} known={known} />
    </Form>
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

interface Row {
  /** Tells it from the others for as long as the form is there. */
  at: number;
  volume: string;
  path: string | undefined;
}

interface RowsProps {
  rows: readonly Row[];
  setRows: (rows: readonly Row[]) => void;
  known: readonly string[];
}

function Rows({ rows, setRows, known }: RowsProps) {
  const t = useT();
  const corrected = useContext(Corrected);
  const [free] = known.filter((name) => !rows.some(({ volume }) => volume === name));
  const drop = (at: number) => {
    // What was said of a row is none of those that move up.
    rows.forEach((_, index) => {
      for (const field of ["volume", "path"]) corrected(`volumes[${index}].${field}`);
    });
    setRows(rows.filter((it) => it.at !== at));
  };
  const add = (volume: string) => {
    const at = Math.max(-1, ...rows.map((it) => it.at)) + 1;
    setRows([...rows, { at, volume, path: undefined }]);
  };
  return (
    <>
      {rows.map(({ at, volume, path }, index) => (
        <div className="group-level" role="group" aria-label={volume} key={at}>
          <Select
            name={`volumes[${index}].volume`}
            label={t("volumes.volume")}
            value={volume}
            onChange={(volume) => setRows(rows.map((it) => (it.at === at ? { ...it, volume } : it)))}
            options={known
              .filter((name) => name === volume || !rows.some((it) => it.volume === name))
              .map((value) => ({ value, text: value }))}
          />
          <NameField name={`volumes[${index}].path`} label={t("volumes.path")} hint={t("volumes.pathHint")} defaultValue={path ?? ""} />
          <Button look="quiet" icon={<X aria-hidden />} aria-label={t("volumes.removeOf", { name: volume })} onPress={() => drop(at)} />
        </div>
      ))}
      {free !== undefined && rows.length < MOST && (
        <div>
          <Button small icon={<Plus aria-hidden />} onPress={() => add(free)}>
            {t("volumes.add")}
          </Button>
        </div>
      )}
    </>
  );
}

/** A volume that a VM has, as the API takes it. */
const attachment = (volume: string, path: string | undefined) => ({ volume, ...(path === undefined ? {} : { path }) });

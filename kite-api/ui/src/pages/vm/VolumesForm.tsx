import Plus from "lucide-react/icons/plus";
import X from "lucide-react/icons/x";
import { useContext, useState } from "react";
import type { Sent, Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { Corrected } from "../../components/field-errors";
import { Form, given } from "../../components/Form";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";
import { volumesOf } from "../../lib/vm";

/** What the API allows for one VM. */
const MOST = 8;

interface Props {
  vm: Vm;
  /** Those that it has or could have. */
  known: readonly string[];
  edit: (body: Sent<"VmEdit">) => Promise<unknown>;
}

/** The volumes that a VM is to have. */
export default function VolumesForm({ vm, known, edit }: Props) {
  const t = useT();
  const had = volumesOf(vm);
  const [rows, setRows] = useState<readonly Row[]>(() => had.map(({ volume, path }, at) => ({ at, volume, path })));
  const send = async (data: FormData) => {
    const wanted = rows.map(({ volume }, index) => attachment(volume, given(data, `volumes[${index}].path`)));
    const before = had.map(({ volume, path }) => attachment(volume, path));
    await edit(JSON.stringify(wanted) === JSON.stringify(before) ? {} : { volumes: wanted });
  };
  return (
    <Form submit={t("save")} send={send}>
      <Rows rows={rows} setRows={setRows} known={known} />
    </Form>
  );
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

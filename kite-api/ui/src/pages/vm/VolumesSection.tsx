import Plus from "lucide-react/icons/plus";
import X from "lucide-react/icons/x";
import { useState } from "react";
import { Link } from "react-router";
import { useAccount, useVms, useVolumes } from "../../api/queries";
import type { Sent, Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Section } from "../../components/Page";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";

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
  const me = useAccount();
  const volumes = useVolumes(owner).data ?? [];
  const vms = useVms().data ?? [];
  const [rows, setRows] = useState(() => vm.volumes.map(({ volume, path }, at) => ({ at, volume, path })));
  const isOther = (it: Vm) => it.uid !== vm.uid && it.owner === vm.owner;
  const taken = new Set(vms.filter(isOther).flatMap((it) => it.volumes.map(({ volume }) => volume)));
  const known = new Set(volumes.filter(({ name, deleting }) => !taken.has(name) && !deleting).map(({ name }) => name));
  for (const { volume } of vm.volumes) known.add(volume);
  const free = [...known].filter((name) => !rows.some(({ volume }) => volume === name));
  const send = async (data: FormData) => {
    const wanted = rows.map(({ volume }, index) => attachment(volume, given(data, `volumes[${index}].path`)));
    const before = vm.volumes.map(({ volume, path }) => attachment(volume, path));
    await edit(JSON.stringify(wanted) === JSON.stringify(before) ? {} : { volumes: wanted });
  };
  return (
    <Section title={t("volumes.title")} lead={t("volumes.ofVm")}>
      {known.size === 0 ? (
        <p className="quiet-text">
          {t("volumes.noneFree")} {owner === undefined && me.accessLevel !== "ReadOnly" && <Link to="/disks">{t("disks.title")}</Link>}
        </p>
      ) : (
        <Form submit={t("save")} send={send}>
          {rows.map(({ at, volume, path }, index) => (
            <div className="group-level" key={at}>
              <Select
                name={`volumes[${index}].volume`}
                label={t("volumes.volume")}
                defaultValue={volume}
                onChange={(volume) => setRows(rows.map((it) => (it.at === at ? { ...it, volume } : it)))}
                options={[volume, ...free].map((value) => ({ value, text: value }))}
              />
              <NameField
                name={`volumes[${index}].path`}
                label={t("volumes.path")}
                hint={t("volumes.pathHint")}
                defaultValue={path ?? ""}
              />
              <Button
                look="quiet"
                icon={<X aria-hidden />}
                aria-label={t("volumes.removeOf", { name: volume })}
                onPress={() => setRows(rows.filter((it) => it.at !== at))}
              />
            </div>
          ))}
          {free[0] !== undefined && rows.length < MOST && (
            <div>
              <Button
                small
                icon={<Plus aria-hidden />}
                onPress={() => {
                  const at = Math.max(-1, ...rows.map((it) => it.at)) + 1;
                  setRows([...rows, { at, volume: free[0] as string, path: undefined }]);
                }}
              >
                {t("volumes.add")}
              </Button>
            </div>
          )}
        </Form>
      )}
    </Section>
  );
}

/** A volume that a VM has, as the API takes it. */
const attachment = (volume: string, path: string | undefined) => ({ volume, ...(path === undefined ? {} : { path }) });

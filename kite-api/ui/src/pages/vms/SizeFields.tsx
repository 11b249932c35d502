import type { Sent } from "../../api/types";
import { NameField } from "../../components/Field";
import { given } from "../../components/Form";
import { useT } from "../../i18n";

/** CPUs, memory and disk, typed. */
export function SizeFields({ size }: { size?: { cpu: number; memory: string; disk: string } }) {
  const t = useT();
  return (
    <div className="field-row">
      <NameField name="cpu" label={t("quota.cpu")} type="number" defaultValue={String(size?.cpu ?? 1)} isRequired />
      <NameField name="memory" label={t("quota.memory")} hint={t("size.memoryHint")} defaultValue={size?.memory ?? "1Gi"} isRequired />
      <NameField name="disk" label={t("quota.disk")} hint={t("size.diskHint")} defaultValue={size?.disk ?? "10Gi"} isRequired />
    </div>
  );
}

export type SizeOf = Pick<Sent<"NewVm">, "cpu" | "memory" | "disk">;

/** What was typed as fields of a body. */
export function readSizeFields(data: FormData): SizeOf {
  const cpu = given(data, "cpu");
  return { cpu: cpu === undefined ? undefined : Number(cpu), memory: given(data, "memory"), disk: given(data, "disk") };
}

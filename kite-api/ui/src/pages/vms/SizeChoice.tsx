import { Choice } from "../../components/Choice";
import { NameField } from "../../components/Field";
import { given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { bytes, fits, SIZES, sizeText, type Amounts } from "../../lib/sizes";

const CUSTOM = "custom";

interface Props {
  value: string;
  onChange: (id: string) => void;
  left: Amounts;
  /** Bytes that the image needs. */
  minDisk: number;
}

/** Sizes within what is left of the quota, or one's own. */
export function SizeChoice({ value, onChange, left, minDisk }: Props) {
  const t = useT();
  const why = (size: (typeof SIZES)[number]) => {
    if (!fits(size, left)) return t("size.aboveQuota");
    return bytes(size.disk) < minDisk ? t("size.belowImage") : null;
  };
  return (
    <>
      {left.vms < 1 && <Notice tone="warn">{t("size.noVmLeft")}</Notice>}
      <Choice
        name="size"
        label={t("size.label")}
        value={value}
        onChange={onChange}
        options={[
          ...SIZES.map((size) => {
            const off = why(size);
            return {
              value: size.id,
              title: t(`size.${size.id}`),
              detail: (
                <>
                  {t("size.text", { cpu: size.cpu, memory: sizeText(size.memory), disk: sizeText(size.disk) })}
                  {off !== null && <em>{off}</em>}
                </>
              ),
              disabled: off !== null,
            };
          }),
          { value: CUSTOM, title: t("size.custom"), detail: t("size.customHint") },
        ]}
      />
      {value === CUSTOM && <SizeFields />}
    </>
  );
}

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

/** Medium, or the largest that is left. */
export function firstSize(left: Amounts): string {
  const [small, medium] = SIZES;
  return [medium, small].find((size) => size && fits(size, left))?.id ?? CUSTOM;
}

/** The chosen size as fields of a body. */
export function readSize(data: FormData, id: string): Record<string, unknown> {
  const size = SIZES.find((size) => size.id === id);
  if (size) return { cpu: size.cpu, memory: size.memory, disk: size.disk };
  return readSizeFields(data);
}

export function readSizeFields(data: FormData): Record<string, unknown> {
  const cpu = given(data, "cpu");
  return { cpu: cpu === undefined ? undefined : Number(cpu), memory: given(data, "memory"), disk: given(data, "disk") };
}

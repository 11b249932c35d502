import { ProblemError } from "../../api/problem";
import { Choice } from "../../components/Choice";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { bytes, fits, SIZES, sizeText, type Amounts } from "../../lib/sizes";
import { readSizeFields, SizeFields, type SizeOf } from "./SizeFields";

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

/** Medium, or the largest that is left. */
export function firstSize(left: Amounts): string {
  const [small, medium] = SIZES;
  return [medium, small].find((size) => size && fits(size, left))?.id ?? CUSTOM;
}

/** The chosen size as fields of a body. */
export function readSize(data: FormData, id: string): SizeOf {
  const size = SIZES.find((size) => size.id === id);
  if (size) return { cpu: size.cpu, memory: size.memory, disk: size.disk };
  return readSizeFields(data);
}

/** What the API says of CPUs, memory and disk, at the size of which they are. */
export function atSize(error: unknown, id: string): unknown {
  const isTyped = SIZES.every((size) => size.id !== id);
  if (isTyped || !(error instanceof ProblemError)) return error;
  return error.called((field) => (["cpu", "memory", "disk"].includes(field) ? "size" : field));
}

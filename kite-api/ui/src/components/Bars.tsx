import { Meter } from "react-aria-components/Meter";
import { Label } from "react-aria-components/Label";
import { ProgressBar } from "react-aria-components/ProgressBar";

interface UsageProps {
  label: string;
  used: number;
  most: number;
  text: string;
}

/** How much of something is used. */
export function UsageBar({ label, used, most, text }: UsageProps) {
  const share = most > 0 ? Math.min(1, used / most) : 0;
  const tone = share >= 1 ? "bad" : share >= 0.85 ? "warn" : "busy";
  return (
    <Meter className="usage" value={share * 100} valueLabel={text} data-tone={tone}>
      <div className="bar-text">
        <Label>{label}</Label>
        <span>{text}</span>
      </div>
      <Track share={share} />
    </Meter>
  );
}

interface ProgressProps {
  label: string;
  /** 0 to 100; absent while nobody knows. */
  percent?: number | undefined;
}

/** How far something has come. */
export function Progress({ label, percent }: ProgressProps) {
  const known = percent !== undefined;
  return (
    <ProgressBar className="progress" isIndeterminate={!known} {...(known ? { value: percent } : {})}>
      <div className="bar-text">
        <Label>{label}</Label>
        <span>{known ? `${Math.round(percent)} %` : ""}</span>
      </div>
      <Track share={known ? percent / 100 : 0.3} moving={!known} />
    </ProgressBar>
  );
}

function Track({ share, moving = false }: { share: number; moving?: boolean }) {
  return (
    <div className={moving ? "track moving" : "track"}>
      <div className="fill" style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** `42.0%` as a number. */
export function percentOf(text: string | undefined): number | undefined {
  const number = Number.parseFloat(text ?? "");
  return Number.isNaN(number) ? undefined : number;
}

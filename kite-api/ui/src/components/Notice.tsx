import CircleAlert from "lucide-react/icons/circle-alert";
import CircleCheck from "lucide-react/icons/circle-check";
import Info from "lucide-react/icons/info";
import TriangleAlert from "lucide-react/icons/triangle-alert";
import X from "lucide-react/icons/x";
import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";

export type Tone = "good" | "busy" | "warn" | "bad" | "off";

const ICONS = { good: CircleCheck, busy: Info, warn: TriangleAlert, bad: CircleAlert, off: Info };

interface Props {
  tone: Tone;
  children: ReactNode;
  /** For a remark that can be put away. */
  onClose?: () => void;
  /** It stands there from the beginning, and may tell the time: nothing to be read out
   * by itself. */
  isStanding?: boolean;
}

/** A remark in a box; bad ones are read out at once. */
export function Notice({ tone, children, onClose, isStanding = false }: Props) {
  const t = useT();
  const Icon = ICONS[tone];
  return (
    <div className="notice" data-tone={tone} role={isStanding ? "note" : tone === "bad" ? "alert" : "status"}>
      <Icon aria-hidden />
      <div>{children}</div>
      {onClose && <Button look="quiet" small icon={<X aria-hidden />} aria-label={t("close")} onPress={onClose} />}
    </div>
  );
}

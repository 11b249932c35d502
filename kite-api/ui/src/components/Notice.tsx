import CircleAlert from "lucide-react/icons/circle-alert";
import CircleCheck from "lucide-react/icons/circle-check";
import Info from "lucide-react/icons/info";
import TriangleAlert from "lucide-react/icons/triangle-alert";
import type { ReactNode } from "react";

export type Tone = "good" | "busy" | "warn" | "bad" | "off";

const ICONS = { good: CircleCheck, busy: Info, warn: TriangleAlert, bad: CircleAlert, off: Info };

/** A remark in a box; bad ones are read out at once. */
export function Notice({ tone, children }: { tone: Tone; children: ReactNode }) {
  const Icon = ICONS[tone];
  return (
    <div className="notice" data-tone={tone} role={tone === "bad" ? "alert" : "status"}>
      <Icon aria-hidden />
      <div>{children}</div>
    </div>
  );
}

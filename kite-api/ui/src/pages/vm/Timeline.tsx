import CircleAlert from "lucide-react/icons/circle-alert";
import CircleCheck from "lucide-react/icons/circle-check";
import CircleDashed from "lucide-react/icons/circle-dashed";
import Clock from "lucide-react/icons/clock";
import TriangleAlert from "lucide-react/icons/triangle-alert";
import { sentence } from "../../api/problem";
import type { Vm } from "../../api/types";
import { When } from "../../components/When";
import { useT, type Key } from "../../i18n";
import { useVmState } from "../../lib/use-vm-state";

const TITLES: Record<string, Key> = {
  Ready: "condition.Ready",
  Reserved: "condition.Reserved",
  ImageReady: "condition.ImageReady",
  DiskReady: "condition.DiskReady",
  VirtualMachineReady: "condition.VirtualMachineReady",
  Exposed: "condition.Exposed",
  RestartRequired: "condition.RestartRequired",
  Expired: "condition.Expired",
  Idle: "condition.Idle",
  OfferClaimed: "condition.OfferClaimed",
};

/** What one can do about a condition that is not as it should be. */
const REMEDIES: Record<string, Key> = {
  QuotaExceeded: "remedy.QuotaExceeded",
  ExpiresSoon: "remedy.Expired",
  Reserved: "remedy.Reserved",
  ImageReady: "remedy.ImageReady",
  DiskReady: "remedy.DiskReady",
  VirtualMachineReady: "remedy.VirtualMachineReady",
  Exposed: "remedy.Exposed",
  RestartRequired: "remedy.RestartRequired",
  Expired: "remedy.Expired",
  Idle: "remedy.Idle",
  OfferClaimed: "remedy.OfferClaimed",
};

const ICONS = { good: CircleCheck, busy: Clock, warn: TriangleAlert, bad: CircleAlert, off: CircleDashed };

/** What happened to the VM, the latest first. */
export function Timeline({ vm }: { vm: Vm }) {
  const t = useT();
  const tones = useVmState().standingsOf(vm);
  const { conditions } = vm.status;
  if (conditions.length === 0) return <p className="quiet-text">{t("timeline.empty")}</p>;
  const sorted = [...conditions].sort((a, b) => b.lastTransitionTime.localeCompare(a.lastTransitionTime));
  return (
    <ol className="timeline">
      {sorted.map((condition) => {
        const tone = tones.get(condition.type) ?? "off";
        const Icon = ICONS[tone];
        const title = TITLES[condition.type];
        const remedy = REMEDIES[condition.reason] ?? REMEDIES[condition.type];
        const isOff = condition.type === "Idle" && condition.status === "True";
        const needsRemedy = tone === "warn" || isOff || condition.reason === "ExpiresSoon";
        return (
          <li key={condition.type} data-tone={tone}>
            <Icon aria-hidden />
            <div>
              <h3>
                {title === undefined ? condition.type : t(title)}
                <span className="visually-hidden">: {t(`tone.${tone}`)}</span>
              </h3>
              <p>{sentence(condition.message)}</p>
              {needsRemedy && remedy !== undefined && <p className="remedy">{t(remedy)}</p>}
              <When time={condition.lastTransitionTime} is="past" />
            </div>
          </li>
        );
      })}
    </ol>
  );
}

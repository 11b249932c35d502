import CircleAlert from "lucide-react/icons/circle-alert";
import CircleCheck from "lucide-react/icons/circle-check";
import CircleDashed from "lucide-react/icons/circle-dashed";
import Clock from "lucide-react/icons/clock";
import TriangleAlert from "lucide-react/icons/triangle-alert";
import { Link } from "react-router";
import { useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { When } from "../../components/When";
import { useT, type Key } from "../../i18n";
import { mayEnter, mayManage } from "../../lib/may";
import { useVmState } from "../../lib/use-vm-state";
import { isWrong, settingPath } from "../../lib/vm";
import { Why } from "./Why";

const TITLES: Record<string, Key> = {
  Ready: "condition.Ready",
  Reserved: "condition.Reserved",
  ImageReady: "condition.ImageReady",
  DiskReady: "condition.DiskReady",
  VirtualMachineReady: "condition.VirtualMachineReady",
  Exposed: "condition.Exposed",
  RestartRequired: "condition.RestartRequired",
  Resizing: "condition.Resizing",
  Expired: "condition.Expired",
  Idle: "condition.Idle",
  OfferClaimed: "condition.OfferClaimed",
  Accessible: "condition.Accessible",
  Restored: "condition.Restored",
  SnapshotsScheduled: "condition.SnapshotsScheduled",
  VolumesAttached: "condition.VolumesAttached",
};

/** What one can do about a condition that is not as it should be, by its reason or else
 * by its type. */
const REMEDIES: Record<string, Key> = {
  QuotaExceeded: "remedy.QuotaExceeded",
  ExpiresSoon: "remedy.Expired",
  Suspended: "remedy.Suspended",
  SshIdTaken: "remedy.SshIdTaken",
  SshIdKept: "remedy.SshIdTaken",
  DomainTaken: "remedy.DomainTaken",
  DomainKept: "remedy.DomainTaken",
  DomainReserved: "remedy.DomainTaken",
  UnknownImage: "remedy.UnknownImage",
  ImageNotReady: "remedy.ImageNotReady",
  ImageFailed: "remedy.ImageFailed",
  DiskTooSmall: "remedy.DiskTooSmall",
  SmallerThanSnapshot: "remedy.DiskTooSmall",
  CloneFailed: "remedy.CloneFailed",
  DiskFailed: "remedy.DiskFailed",
  CloneBlocked: "remedy.CloneBlocked",
  DiskLost: "remedy.DiskLost",
  DiskLeaving: "remedy.DiskLeaving",
  DiskUnmanaged: "remedy.DiskUnmanaged",
  KeysReplaced: "remedy.KeysReplaced",
  StartBlocked: "remedy.StartBlocked",
  StopBlocked: "remedy.administrator",
  Unschedulable: "remedy.Unschedulable",
  CrashLoopBackOff: "remedy.CrashLoopBackOff",
  Paused: "remedy.Paused",
  PausedIOError: "remedy.PausedIOError",
  ImagePull: "remedy.ImagePull",
  NodeUnreachable: "remedy.NodeUnreachable",
  DataVolumeError: "remedy.DiskReady",
  UserMissing: "remedy.administrator",
  WaitingForNamespace: "remedy.administrator",
  QuotaUnknown: "remedy.administrator",
  CloudInit: "remedy.administrator",
  NameTaken: "remedy.administrator",
  Refused: "remedy.administrator",
  Contested: "remedy.administrator",
  OutdatedCrd: "remedy.administrator",
  Unreadable: "remedy.administrator",
  Missing: "remedy.administrator",
  Failing: "remedy.administrator",
  Reserved: "remedy.Reserved",
  ImageReady: "remedy.ImageReady",
  DiskReady: "remedy.DiskReady",
  VirtualMachineReady: "remedy.VirtualMachineReady",
  Exposed: "remedy.Exposed",
  RestartRequired: "remedy.RestartRequired",
  Expired: "remedy.Expired",
  Idle: "remedy.Idle",
  OfferClaimed: "remedy.OfferClaimed",
  Accessible: "remedy.Accessible",
};

const ICONS = { good: CircleCheck, busy: Clock, warn: TriangleAlert, bad: CircleAlert, off: CircleDashed };

/** At which field of the settings it is done, of what is done there. */
const FIELDS: Record<string, string> = {
  Expired: "expiresAt",
  ExpiresSoon: "expiresAt",
  NoCredentials: "sshPassword",
  DomainTaken: "domainPrefix",
  DomainKept: "domainPrefix",
  DomainReserved: "domainPrefix",
  DiskTooSmall: "disk",
  SmallerThanSnapshot: "disk",
};

/** What happened to the VM, the latest first. */
export function Timeline({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
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
        const needsRemedy = isWrong(tone) || isOff;
        // `Ready` says what is in the way, which says so itself.
        const isRepeated =
          condition.type === "Ready" &&
          conditions.some(({ type, reason }) => type !== condition.type && reason === condition.reason);
        const field = FIELDS[condition.reason];
        const may = field === "sshPassword" ? mayEnter(me, vm) : mayManage(me, vm);
        return (
          <li key={condition.type} data-tone={tone}>
            <Icon aria-hidden />
            <div>
              <h3>
                {title === undefined ? condition.type : t(title)}
                <span className="visually-hidden">: {t(`tone.${tone}`)}</span>
              </h3>
              <Why vm={vm} condition={condition} tone={tone} isRepeated={isRepeated} />
              {needsRemedy && !isRepeated && remedy !== undefined && (
                <p className="remedy">
                  {field !== undefined && may ? <Link to={settingPath(vm, me.name, field)}>{t(remedy)}</Link> : t(remedy)}
                </p>
              )}
              <When time={condition.lastTransitionTime} is="past" />
            </div>
          </li>
        );
      })}
    </ol>
  );
}

import { Link } from "react-router";
import { useAccount } from "../../api/queries";
import type { Condition, Vm } from "../../api/types";
import { Notice, type Tone } from "../../components/Notice";
import { useT, type Key } from "../../i18n";
import { mayEnter, mayManage } from "../../lib/may";
import { endingSoon, endOf, keptOff, lackOfCredentials, settingPath } from "../../lib/vm";
import { Why } from "./Why";

interface Remark {
  tone: Tone;
  title: Key;
  condition: Condition;
  /** What one can do about it: at which field, or else whom to ask. */
  at?: { field: string; text: Key };
  ask?: Key;
}

/** What stands above all else of a VM, as somebody has to see to it. */
export function remarkOn(vm: Vm, may: { manage: boolean; enter: boolean }): Remark | undefined {
  const laterEnd = may.manage
    ? ({ at: { field: "expiresAt", text: "notice.laterEnd" } } as const)
    : ({ ask: "notice.askForEnd" } as const);
  const end = endOf(vm);
  if (end !== undefined) return { tone: "bad", title: "notice.expired", condition: end, ...laterEnd };
  const suspended = keptOff(vm);
  if (suspended !== undefined) {
    return { tone: "warn", title: "notice.suspended", condition: suspended, ask: "notice.askForPardon" };
  }
  const soon = endingSoon(vm);
  if (soon !== undefined) return { tone: "warn", title: "notice.expiresSoon", condition: soon, ...laterEnd };
  const lack = vm.deleting ? undefined : lackOfCredentials(vm);
  if (lack === undefined) return undefined;
  const access = may.enter
    ? ({ at: { field: lackingField(vm), text: "notice.access" } } as const)
    : ({ ask: "notice.askForAccess" } as const);
  return { tone: "warn", title: "notice.noCredentials", condition: lack, ...access };
}

/** Where the first of what is lacking is set. */
const lackingField = ({ sshLogin, hasSshPassword }: Vm) =>
  sshLogin === "KeyAndPassword" && hasSshPassword ? "sshPublicKeys" : "sshPassword";

export function VmNotice({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  const remark = remarkOn(vm, { manage: mayManage(me, vm), enter: mayEnter(me, vm) });
  if (remark === undefined) return null;
  const { tone, title, condition, at, ask } = remark;
  return (
    <Notice tone={tone} isStanding>
      <div className="stack tight">
        <strong>{t(title)}</strong>
        <Why vm={vm} condition={condition} tone={tone} />
        {ask !== undefined && <p>{t(ask)}</p>}
        {at !== undefined && (
          <div>
            <Link className="button primary" to={settingPath(vm, me.name, at.field)}>
              {t(at.text)}
            </Link>
          </div>
        )}
      </div>
    </Notice>
  );
}

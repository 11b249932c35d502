import { Link } from "react-router";
import { useAccount, useConfig } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Badge } from "../../components/Badge";
import { CopyText } from "../../components/CopyText";
import { useI18n } from "../../i18n";
import { mayManage } from "../../lib/may";
import { explain } from "../../lib/reasons";
import { useNow } from "../../lib/now";
import { useVmState } from "../../lib/use-vm-state";
import { endingSoon, sshCommandOf, vmPath } from "../../lib/vm";
import { PowerButtons } from "../vm/PowerButtons";
import { VmFacts } from "../vm/VmFacts";
import { VmProgress } from "../vm/VmProgress";

/** A VM at a glance. */
export function VmCard({ vm }: { vm: Vm }) {
  const { t, tag } = useI18n();
  const now = useNow();
  const me = useAccount();
  const state = useVmState().stateOf(vm);
  const cause = state.cause ?? endingSoon(vm);
  const sshCommand = sshCommandOf(vm, useConfig().data?.gateway);
  return (
    <li className="card vm-card" data-tone={state.tone}>
      <header>
        <h2>
          <Link to={vmPath(vm, me.name)}>{vm.name}</Link>
        </h2>
        <Badge tone={state.tone}>{t(state.label)}</Badge>
      </header>
      <VmFacts vm={vm} />
      <VmProgress vm={vm} />
      {cause !== undefined && <p className="detail">{explain(vm, cause, t, tag, now).text}</p>}
      {sshCommand !== undefined && !vm.deleting && (
        <CopyText text={sshCommand} label={t("vm.sshOf", { name: vm.name })} />
      )}
      <footer>
        {mayManage(me, vm) && !vm.deleting && <PowerButtons vm={vm} small />}
        <Link className="more" to={vmPath(vm, me.name)} aria-label={t("vm.openOf", { name: vm.name })}>
          {t("vm.open")}
        </Link>
      </footer>
    </li>
  );
}

import Play from "lucide-react/icons/play";
import RotateCw from "lucide-react/icons/rotate-cw";
import Square from "lucide-react/icons/square";
import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { useT } from "../../i18n";
import { isRunning, isWanted } from "../../lib/vm";

/** Start, or stop and restart. */
export function PowerButtons({ vm, small = false }: { vm: Vm; small?: boolean }) {
  const t = useT();
  const me = useAccount();
  const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
  const { name } = vm;
  if (!isWanted(vm)) {
    return (
      <ActionButton
        key="start"
        small={small}
        look={small ? "plain" : "primary"}
        icon={<Play aria-hidden />}
        aria-label={t("power.startOf", { name })}
        act={async () => putVm(await calls.startVm(ref))}
        done={t("power.starting", { name })}
      >
        {t("power.start")}
      </ActionButton>
    );
  }
  return (
    <>
      <ActionButton
        key="stop"
        small={small}
        icon={<Square aria-hidden />}
        aria-label={t("power.stopOf", { name })}
        act={async () => putVm(await calls.stopVm(ref))}
        done={t("power.stopping", { name })}
      >
        {t("power.stop")}
      </ActionButton>
      {isRunning(vm) && !small && (
        <ActionButton
          key="restart"
          icon={<RotateCw aria-hidden />}
          aria-label={t("power.restartOf", { name })}
          act={async () => putVm(await calls.restartVm(ref))}
          done={t("power.restarting", { name })}
        >
          {t("power.restart")}
        </ActionButton>
      )}
    </>
  );
}

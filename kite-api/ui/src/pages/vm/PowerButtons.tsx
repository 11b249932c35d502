import CalendarClock from "lucide-react/icons/calendar-clock";
import Play from "lucide-react/icons/play";
import RotateCw from "lucide-react/icons/rotate-cw";
import Square from "lucide-react/icons/square";
import { useState } from "react";
import { Link } from "react-router";
import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { useT } from "../../i18n";
import { useNow } from "../../lib/now";
import { endOf, isRunning, isWanted, keptOff, settingPath } from "../../lib/vm";

/** Start, or stop and restart; of a VM that stays off, what leads out of that. */
export function PowerButtons({ vm, small = false }: { vm: Vm; small?: boolean }) {
  const t = useT();
  const me = useAccount();
  const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
  const { name } = vm;
  const now = useNow();
  const [asked, setAsked] = useState<"stop" | "restart" | null>(null);
  if (keptOff(vm, now) !== undefined) {
    // Why, is said beside it; on the VM's page with the way to a later end.
    if (endOf(vm, now) !== undefined && small) {
      return (
        <Link
          className="button plain small"
          to={settingPath(vm, me.name, "expiresAt")}
          aria-label={t("notice.laterEndOf", { name })}
        >
          <CalendarClock aria-hidden /> {t("notice.laterEnd")}
        </Link>
      );
    }
    return (
      <Button small={small} icon={<Play aria-hidden />} aria-label={t("power.startOf", { name })} isDisabled>
        {t("power.start")}
      </Button>
    );
  }
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
  const stop = async () => putVm(await calls.stopVm(ref));
  const restart = async () => putVm(await calls.restartVm(ref));
  return (
    <>
      <Button small={small} icon={<Square aria-hidden />} aria-label={t("power.stopOf", { name })} onPress={() => setAsked("stop")}>
        {t("power.stop")}
      </Button>
      {isRunning(vm) && !small && (
        <Button icon={<RotateCw aria-hidden />} aria-label={t("power.restartOf", { name })} onPress={() => setAsked("restart")}>
          {t("power.restart")}
        </Button>
      )}
      <Confirm
        isMild
        title={t("power.stopAsk", { name })}
        submit={t("power.stop")}
        consequence={`${t("power.stopConsequence", { name })}${vm.startOnConnect ? ` ${t("power.stopAgain")}` : ""}`}
        done={t("power.stopping", { name })}
        isOpen={asked === "stop"}
        onClose={() => setAsked(null)}
        send={stop}
      />
      <Confirm
        isMild
        title={t("power.restartAsk", { name })}
        submit={t("power.restart")}
        consequence={t("power.restartConsequence", { name })}
        done={t("power.restarting", { name })}
        isOpen={asked === "restart"}
        onClose={() => setAsked(null)}
        send={restart}
      />
    </>
  );
}

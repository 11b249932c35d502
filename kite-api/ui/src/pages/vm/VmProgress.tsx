import type { Vm } from "../../api/types";
import { percentOf, Progress } from "../../components/Bars";
import { useT } from "../../i18n";
import { STEPS, stepsDone } from "../../lib/vm";

/** How far a VM is that is on its way. */
export function VmProgress({ vm }: { vm: Vm }) {
  const t = useT();
  const done = stepsDone(vm);
  if (done === undefined) return null;
  const step = STEPS[done] ?? "ready";
  // The disk knows how much of it is there; the rest counts as steps.
  const disk = step === "disk" ? percentOf(vm.status.diskProgress) : undefined;
  const percent = step === "disk" ? disk : ((done + 0.5) / STEPS.length) * 100;
  return <Progress label={t(`step.${step}`)} percent={percent} />;
}

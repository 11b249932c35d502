import { useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { UsageBar } from "../../components/Bars";
import { useT } from "../../i18n";
import { bytes, sizeText, sum } from "../../lib/sizes";

/** How much of the quota the VMs use. */
export function QuotaBars({ vms }: { vms: readonly Vm[] }) {
  const t = useT();
  const { quota } = useAccount();
  const used = sum(vms);
  const of = (used: string | number, most: string | number) => t("quota.of", { used, most });
  return (
    <section className="card quota" aria-label={t("quota.title")}>
      <UsageBar label={t("quota.vms")} used={used.vms} most={quota.vms} text={of(used.vms, quota.vms)} />
      <UsageBar label={t("quota.cpu")} used={used.cpu} most={quota.cpu} text={of(used.cpu, quota.cpu)} />
      {(["memory", "disk"] as const).map((what) => (
        <UsageBar
          key={what}
          label={t(`quota.${what}`)}
          used={used[what]}
          most={bytes(quota[what])}
          text={of(sizeText(used[what]), sizeText(quota[what]))}
        />
      ))}
    </section>
  );
}

import Plus from "lucide-react/icons/plus";
import { lazy, Suspense, useState } from "react";
import { useAccount, useVms } from "../../api/queries";
import { Button } from "../../components/Button";
import { Empty } from "../../components/Empty";
import { Loaded } from "../../components/Loaded";
import { Page } from "../../components/Page";
import { useT } from "../../i18n";
import { mayCreate } from "../../lib/may";
import { QuotaBars } from "./QuotaBars";
import { VmCard } from "./VmCard";

const CreateVm = lazy(() => import("./CreateVm"));

/** The account's own VMs. */
export default function VmsPage() {
  const t = useT();
  const me = useAccount();
  const vms = useVms();
  const [creating, setCreating] = useState(false);
  const create = (label: string) => (
    <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
      {label}
    </Button>
  );
  const may = mayCreate(me);
  return (
    <Page title={t("vms.title")} lead={t("vms.lead")} actions={may ? create(t("vms.new")) : undefined}>
      <Loaded query={vms}>
        {(vms) => (
          <>
            <QuotaBars vms={vms} />
            {vms.length === 0 ? (
              <Empty title={t("vms.empty")} action={may ? create(t("vms.first")) : undefined}>
                {t(may ? "vms.emptyHint" : "vms.emptyReadOnly")}
              </Empty>
            ) : (
              <ul className="cards" aria-label={t("vms.title")}>
                {vms.map((vm) => (
                  <VmCard key={vm.uid} vm={vm} />
                ))}
              </ul>
            )}
          </>
        )}
      </Loaded>
      {creating && (
        <Suspense>
          <CreateVm onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </Page>
  );
}

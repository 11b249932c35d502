import { useState } from "react";
import { Link } from "react-router";
import { useAccount, useAllVms } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Loaded } from "../../components/Loaded";
import { Page } from "../../components/Page";
import { Search } from "../../components/Search";
import { Table, type Column } from "../../components/Table";
import { useI18n } from "../../i18n";
import { sizeText } from "../../lib/sizes";
import { explain } from "../../lib/reasons";
import { useNow } from "../../lib/now";
import { useVmState } from "../../lib/use-vm-state";
import { asOfOwner, endOf, endingSoon, vmPath } from "../../lib/vm";

/** Everybody's VMs. */
export default function AllVmsPage() {
  const { t, tag } = useI18n();
  const now = useNow();
  const me = useAccount();
  const vms = useAllVms();
  const { stateOf } = useVmState();
  const [text, setText] = useState("");
  const columns: readonly Column<Vm>[] = [
    { title: t("vm.name"), head: true, cell: (vm) => <Link to={vmPath(vm, me.name)}>{vm.name}</Link> },
    { title: t("vm.owner"), cell: (vm) => vm.owner },
    {
      title: t("vm.state"),
      cell: (vm) => {
        const state = stateOf(vm);
        const end = endOf(vm, now) ?? endingSoon(vm);
        return (
          <>
            <Badge tone={state.tone}>{t(state.label)}</Badge>
            {end !== undefined && <small className="under">{explain(vm, end, t, tag, now).text}</small>}
          </>
        );
      },
    },
    { title: t("vm.image"), cell: (vm) => vm.image },
    {
      title: t("size.label"),
      cell: (vm) => t("size.text", { cpu: vm.cpu, memory: sizeText(vm.memory), disk: sizeText(vm.disk) }),
    },
    { title: t("overview.node"), cell: (vm) => vm.status.nodeName ?? "–" },
  ];
  const wanted = (vm: Vm) =>
    [vm.name, vm.owner, vm.image, vm.sshId].some((word) => word.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <Page
      title={t("nav.allVms")}
      lead={t("admin.allVmsLead")}
      actions={<Search label={t("search.vms")} value={text} onChange={setText} />}
    >
      <section className="card">
        <Loaded query={vms}>
          {(vms) => (
            <Table
              label={t("nav.allVms")}
              columns={columns}
              rows={vms.filter(wanted).map(asOfOwner)}
              rowKey={(vm) => vm.uid}
              empty={text ? t("search.nothing", { text }) : t("admin.noVms")}
            />
          )}
        </Loaded>
      </section>
    </Page>
  );
}

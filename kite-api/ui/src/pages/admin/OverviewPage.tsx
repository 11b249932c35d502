import { useAllVms, useCapacity, useImages, useUsers } from "../../api/queries";
import type { Capacity, User, Vm } from "../../api/types";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page, Section } from "../../components/Page";
import { useT, type Key } from "../../i18n";
import { bytes, sizeText, sum } from "../../lib/sizes";
import { useVmState } from "../../lib/use-vm-state";
import { hasMachine } from "../../lib/vm";
import { BarChart } from "./BarChart";
import { StackedBar } from "./StackedBar";

/** The platform at a glance, from the lists that there are. */
export default function OverviewPage() {
  const t = useT();
  const vms = useAllVms();
  const users = useUsers();
  const images = useImages();
  const capacity = useCapacity().data;
  return (
    <Page title={t("admin.overview")} lead={t("admin.overviewLead")}>
      <Loaded query={vms}>
        {(vms) => (
          <Loaded query={users}>
            {(users) => (
              <>
                <Figures vms={vms} users={users} images={images.data?.length ?? 0} />
                <div className="columns filled">
                  <Section title={t("admin.byState")}>
                    <ByState vms={vms} />
                  </Section>
                  <Section title={t("admin.promised")} lead={t("admin.promisedLead")}>
                    <Promised vms={vms} users={users} />
                  </Section>
                  {capacity && (
                    <Section
                      title={t("admin.capacity")}
                      lead={t("admin.capacityLead", { count: capacity.nodes })}
                    >
                      <OfCluster vms={vms} capacity={capacity} />
                    </Section>
                  )}
                </div>
                <ByOwner vms={vms} />
              </>
            )}
          </Loaded>
        )}
      </Loaded>
    </Page>
  );
}

function Figures({ vms, users, images }: { vms: readonly Vm[]; users: readonly User[]; images: number }) {
  const t = useT();
  const total = sum(vms);
  const running = vms.filter((vm) => vm.status.powerState === "On").length;
  const figures: [Key, string][] = [
    ["admin.vms", `${running} / ${vms.length}`],
    ["admin.users", String(users.length)],
    ["admin.images", String(images)],
    ["quota.cpu", String(total.cpu)],
    ["quota.memory", sizeText(total.memory)],
    ["quota.disk", sizeText(total.disk)],
  ];
  return (
    <dl className="figures">
      {figures.map(([name, value]) => (
        <div className="card" key={name}>
          <dt>{t(name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const TONES: readonly Tone[] = ["good", "busy", "warn", "bad", "off"];

function ByState({ vms }: { vms: readonly Vm[] }) {
  const t = useT();
  const { stateOf } = useVmState();
  const parts = TONES.map((tone) => ({
    tone,
    label: t(`admin.tone.${tone}`),
    value: vms.filter((vm) => stateOf(vm).tone === tone).length,
  }));
  return <StackedBar label={t("admin.byState")} parts={parts} empty={t("admin.noVms")} />;
}

/** What VMs have of what quotas allow, together. */
function Promised({ vms, users }: { vms: readonly Vm[]; users: readonly User[] }) {
  const t = useT();
  const used = sum(vms);
  const most = (of: (user: User) => number) => users.reduce((total, user) => total + of(user), 0);
  const rows = [
    { label: t("quota.cpu"), value: used.cpu, most: most((user) => user.quota.cpu), text: String },
    { label: t("quota.memory"), value: used.memory, most: most((user) => bytes(user.quota.memory)), text: sizeText },
    { label: t("quota.disk"), value: used.disk, most: most((user) => bytes(user.quota.disk)), text: sizeText },
  ];
  return <Shares label={t("admin.promised")} rows={rows} />;
}

/** What VMs that run have of what the cluster's nodes have. */
function OfCluster({ vms, capacity }: { vms: readonly Vm[]; capacity: Capacity }) {
  const t = useT();
  const on = sum(vms.filter(hasMachine));
  const rows = [
    { label: t("quota.cpu"), value: on.cpu, most: capacity.cpu, text: String },
    { label: t("quota.memory"), value: on.memory, most: bytes(capacity.memory), text: sizeText },
  ];
  return <Shares label={t("admin.capacity")} rows={rows} />;
}

interface Share {
  label: string;
  value: number;
  most: number;
  text: (value: number) => string;
}

/** Bars of what is used of something. */
function Shares({ label, rows }: { label: string; rows: readonly Share[] }) {
  const t = useT();
  return (
    <BarChart
      label={label}
      rows={rows.map(({ label, value, most, text }) => ({
        label,
        share: most > 0 ? value / most : 0,
        text: t("quota.of", { used: text(value), most: text(most) }),
      }))}
    />
  );
}

/** Who has how much, the largest first. */
function ByOwner({ vms }: { vms: readonly Vm[] }) {
  const t = useT();
  const owners = [...Map.groupBy(vms, (vm) => vm.owner)].map(([owner, vms]) => ({ owner, ...sum(vms) }));
  const chart = (what: "vms" | "cpu" | "memory" | "disk", text: (value: number) => string) => {
    const sorted = [...owners].sort((a, b) => b[what] - a[what]).slice(0, 8);
    const top = Math.max(1, sorted[0]?.[what] ?? 1);
    return (
      <Section title={t("admin.byOwner", { what: t(`quota.${what}`) })}>
        {sorted.length === 0 ? (
          <p className="quiet-text">{t("admin.noVms")}</p>
        ) : (
          <BarChart
            label={t("admin.byOwner", { what: t(`quota.${what}`) })}
            rows={sorted.map((row) => ({ label: row.owner, share: row[what] / top, text: text(row[what]) }))}
          />
        )}
      </Section>
    );
  };
  return (
    <div className="columns filled">
      {chart("vms", String)}
      {chart("cpu", String)}
      {chart("memory", sizeText)}
      {chart("disk", sizeText)}
    </div>
  );
}

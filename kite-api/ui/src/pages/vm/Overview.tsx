import type { ReactNode } from "react";
import { useAccount, useConfig } from "../../api/queries";
import type { Config, Vm } from "../../api/types";
import { CopyText } from "../../components/CopyText";
import { Notice, type Tone } from "../../components/Notice";
import { Section } from "../../components/Page";
import { useI18n } from "../../i18n";
import { mayEnter, mayManage } from "../../lib/may";
import { duration } from "../../lib/span";
import { dateTime, relative } from "../../lib/time";
import { useVmState } from "../../lib/use-vm-state";
import { isNamed, isWrong, sshCommandOf } from "../../lib/vm";
import { HostKeys } from "./HostKeys";
import { Timeline } from "./Timeline";
import { VmFacts } from "./VmFacts";
import { remarkOn } from "./VmNotice";
import { VmProgress } from "./VmProgress";
import { Why } from "./Why";

/** How to reach the VM, how it does, and what happened. */
export function Overview({ vm }: { vm: Vm }) {
  const { t, tag } = useI18n();
  const config = useConfig().data;
  const { stateOf, reachOf, standingsOf } = useVmState();
  const me = useAccount();
  const state = stateOf(vm);
  const remark = remarkOn(vm, { manage: mayManage(me, vm), enter: mayEnter(me, vm) });
  // What is said at the top is not said again.
  const cause = remark?.condition.reason === state.cause?.reason ? undefined : state.cause;
  const tones = standingsOf(vm);
  const { status } = vm;
  const sshCommand = sshCommandOf(vm, config?.gateway);
  const exposed = tones.get("Exposed");
  const web = exposed && WEB[exposed];
  return (
    <div className="columns">
      <div className="stack">
        <Section title={t("overview.reach")}>
          <p>{t(`reach.${reachOf(vm)}`, { state: t(state.label) })}</p>
          {sshCommand === undefined ? (
            <p className="quiet-text">{t(`overview.noSsh.${whyNoSsh(vm, config, tones.get("Reserved"))}`)}</p>
          ) : (
            <CopyText text={sshCommand} label={t("vm.sshOf", { name: vm.name })} />
          )}
          {status.domain !== undefined && (
            <p>
              {t("overview.web")}{" "}
              <a href={`http://${status.domain}/`} rel="noreferrer">
                {status.domain}
              </a>
              {web !== undefined && web !== "good" && <> {t(`overview.web.${web}`)}</>}
            </p>
          )}
          <p className="quiet-text">
            {vm.hasSshPassword ? t("overview.password") : t("overview.noPassword")}{" "}
            {t("overview.keys", { count: vm.sshPublicKeys.length })}
          </p>
          <HostKeys />
        </Section>
        <Section title={t("overview.facts")}>
          <VmFacts vm={vm} />
          <VmProgress vm={vm} />
          {cause !== undefined && (
            <Notice tone={state.tone}>
              <Why vm={vm} condition={cause} tone={state.tone} />
            </Notice>
          )}
          <dl className="pairs">
            <Pair name={t("overview.login")}>{vm.sshId}</Pair>
            <Pair name={t("overview.node")}>{status.nodeName}</Pair>
            <Pair name={t("overview.address")}>{status.ipAddress}</Pair>
            <Pair name={t("overview.created")}>{vm.createdAt && dateTime(vm.createdAt, tag)}</Pair>
            <Pair name={t("vm.idleTimeout")}>{vm.idleTimeout && duration(vm.idleTimeout, tag)}</Pair>
            <Pair name={t("vm.expiresAt")}>
              {vm.expiresAt && `${dateTime(vm.expiresAt, tag)} (${relative(vm.expiresAt, tag)})`}
            </Pair>
            <Pair name={t("overview.deleteAt")}>{status.deleteAt && dateTime(status.deleteAt, tag)}</Pair>
            <Pair name={t("overview.offer")}>{vm.offer}</Pair>
          </dl>
        </Section>
      </div>
      <Section title={t("timeline.title")} lead={t("timeline.lead")}>
        <Timeline vm={vm} />
      </Section>
    </div>
  );
}

/** What is said behind a web address, by how its condition stands. */
const WEB: Record<Tone, "good" | "soon" | "fails"> = { good: "good", busy: "soon", warn: "fails", bad: "fails", off: "good" };

/** Why there is no ssh command, by where the gateway is and how the login name stands. */
function whyNoSsh(
  vm: Vm,
  config: Config | undefined,
  reserved: Tone | undefined,
): "soon" | "refused" | "noAddress" | "nowhere" {
  if (config === undefined) return "soon";
  if (config.gateway === undefined) return "nowhere";
  if (!isNamed(vm)) return isWrong(reserved) ? "refused" : "soon";
  const { host, port } = config.gateway;
  return host === undefined || port === undefined ? "noAddress" : "soon";
}

/** A term and what it is; nothing where there is nothing. */
function Pair({ name, children }: { name: string; children: ReactNode }) {
  if (children === undefined || children === null || children === "") return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

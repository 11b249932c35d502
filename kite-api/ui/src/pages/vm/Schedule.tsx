import { useState } from "react";
import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { Outdated } from "../../components/Outdated";
import { Section } from "../../components/Page";
import { Select } from "../../components/Select";
import { useToast } from "../../components/Toasts";
import { When } from "../../components/When";
import { useT } from "../../i18n";
import { useBasis, type Basis } from "../../lib/basis";
import { useVmState } from "../../lib/use-vm-state";
import { condition } from "../../lib/vm";
import { Why } from "./Why";

/** What most people want, by its pattern. */
const PATTERNS = { off: "", nightly: "30 3 * * *", weekly: "30 3 * * 0", hourly: "0 * * * *" } as const;
const CHOICES = ["off", "nightly", "weekly", "hourly", "own"] as const;
type Choice = (typeof CHOICES)[number];

const choiceOf = (pattern: string | undefined): Choice =>
  CHOICES.find((it) => it !== "own" && PATTERNS[it] === (pattern ?? "")) ?? "own";

/** How many stay unless somebody says otherwise. */
const KEEP = 7;

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

const editable = (vm: Vm) => [[vm.snapshots]];

/** When snapshots are taken by themselves, and how many of them stay. */
export function Schedule({ vm, may }: { vm: Vm; may: boolean }) {
  const t = useT();
  const basis = useBasis(vm, editable);
  const { standingsOf } = useVmState();
  const told = condition(vm, "SnapshotsScheduled");
  const tone = standingsOf(vm).get("SnapshotsScheduled") ?? "busy";
  const next = vm.status.snapshots?.next;
  return (
    <Section title={t("schedule.title")} lead={t("schedule.lead")}>
      {told !== undefined && vm.snapshots !== undefined && (
        <Notice tone={tone} isStanding>
          <Why vm={vm} condition={told} tone={tone} />{" "}
          {next !== undefined && (
            <>
              {t("schedule.next")} <When time={next} />
            </>
          )}
        </Notice>
      )}
      {may ? (
        <>
          <Outdated of={basis} />
          <ScheduleForm key={basis.round} basis={basis} />
        </>
      ) : (
        <Told vm={vm} />
      )}
    </Section>
  );
}

/** For who may not change it. */
function Told({ vm: { snapshots } }: { vm: Vm }) {
  const t = useT();
  const choice = choiceOf(snapshots?.schedule);
  if (snapshots === undefined) return <p>{t("schedule.off")}</p>;
  return (
    <p>
      {choice === "own" ? snapshots.schedule : t(`schedule.${choice}`)} ({snapshots.timeZone ?? "UTC"}) · {t("schedule.keep")}:{" "}
      {snapshots.keep}
    </p>
  );
}

function ScheduleForm({ basis: { basis: vm, saved } }: { basis: Basis<Vm> }) {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const { snapshots } = vm;
  const [choice, setChoice] = useState(() => choiceOf(snapshots?.schedule));
  const [keep, setKeep] = useState(() => String(snapshots?.keep ?? KEEP));
  const send = async (data: FormData) => {
    const pattern = choice === "own" ? (given(data, "snapshots.schedule") ?? "") : PATTERNS[choice];
    const keep = given(data, "snapshots.keep");
    const schedule = {
      schedule: pattern,
      timeZone: given(data, "snapshots.timeZone"),
      keep: keep === undefined ? undefined : Number(keep),
      maxFailures: snapshots?.maxFailures,
      quiesce: snapshots?.quiesce,
    };
    const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
    const answer = await calls.editVm(ref, { snapshots: choice === "off" ? null : schedule }, vm.etag);
    saved(answer);
    putVm(answer);
    toast(t("settings.saved"));
  };
  return (
    <Form submit={t("save")} send={send}>
      <Select
        name="snapshots"
        label={t("schedule.often")}
        value={choice}
        onChange={(value) => setChoice(CHOICES.find((it) => it === value) ?? choice)}
        options={CHOICES.map((value) => ({ value, text: t(`schedule.${value}`) }))}
      />
      {choice === "own" && (
        <NameField
          name="snapshots.schedule"
          label={t("schedule.pattern")}
          hint={t("schedule.patternHint")}
          defaultValue={snapshots?.schedule ?? ""}
          isRequired
        />
      )}
      {choice !== "off" && (
        <>
          <div className="field-row">
            <NameField
              name="snapshots.timeZone"
              label={t("schedule.timeZone")}
              hint={t("schedule.timeZoneHint")}
              defaultValue={snapshots === undefined ? here() : (snapshots.timeZone ?? "")}
            />
            <NameField
              name="snapshots.keep"
              label={t("schedule.keep")}
              hint={t("schedule.keepHint")}
              type="number"
              value={keep}
              onChange={setKeep}
            />
          </div>
          {snapshots !== undefined && Number(keep) < snapshots.keep && <Notice tone="warn">{t("schedule.fewer")}</Notice>}
        </>
      )}
    </Form>
  );
}

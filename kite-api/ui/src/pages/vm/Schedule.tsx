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
import { useBasis } from "../../lib/basis";
import { useVmState } from "../../lib/use-vm-state";
import { condition } from "../../lib/vm";
import { Why } from "./Why";

/** What most people want, by its pattern. */
const PATTERNS = { off: "", nightly: "30 3 * * *", weekly: "30 3 * * 0", hourly: "0 * * * *" } as const;
const CHOICES = ["off", "nightly", "weekly", "hourly", "own"] as const;
type Choice = (typeof CHOICES)[number];

const choiceOf = (pattern: string | undefined): Choice =>
  CHOICES.find((it) => it !== "own" && PATTERNS[it] === (pattern ?? "")) ?? "own";

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

const editable = (vm: Vm) => [[vm.snapshots]];

/** When snapshots are taken by themselves, and how many of them stay. */
export function Schedule({ vm: current, may }: { vm: Vm; may: boolean }) {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const basis = useBasis(current, editable);
  const { standingsOf } = useVmState();
  const { basis: vm, saved } = basis;
  const [chosen, setChosen] = useState<Choice>();
  const choice = chosen ?? choiceOf(vm.snapshots?.schedule);
  const told = condition(current, "SnapshotsScheduled");
  const tone = standingsOf(current).get("SnapshotsScheduled") ?? "busy";
  const next = current.status.snapshots?.next;
  const send = async (data: FormData) => {
    const pattern = choice === "own" ? (given(data, "snapshots.schedule") ?? "") : PATTERNS[choice];
    const keep = given(data, "snapshots.keep");
    const schedule = {
      schedule: pattern,
      timeZone: given(data, "snapshots.timeZone"),
      keep: keep === undefined ? undefined : Number(keep),
      maxFailures: vm.snapshots?.maxFailures,
      quiesce: vm.snapshots?.quiesce,
    };
    const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
    const answer = await calls.editVm(ref, { snapshots: choice === "off" ? null : schedule }, vm.etag);
    saved(answer);
    putVm(answer);
    setChosen(undefined);
    toast(t("settings.saved"));
  };
  return (
    <Section title={t("schedule.title")} lead={t("schedule.lead")}>
      {told !== undefined && (told.status !== "True" || next !== undefined) && (
        <Notice tone={told.status === "True" ? "good" : tone} isStanding>
          <Why vm={current} condition={told} tone={tone} />{" "}
          {next !== undefined && (
            <>
              {t("schedule.next")} <When time={next} />
            </>
          )}
        </Notice>
      )}
      <Outdated of={basis} />
      {may && (
        <Form key={basis.round} submit={t("save")} send={send}>
          <Select
            name="snapshots"
            label={t("schedule.often")}
            value={choice}
            onChange={(value) => setChosen(CHOICES.find((it) => it === value))}
            options={CHOICES.map((value) => ({ value, text: t(`schedule.${value}`) }))}
          />
          {choice === "own" && (
            <NameField
              name="snapshots.schedule"
              label={t("schedule.pattern")}
              hint={t("schedule.patternHint")}
              defaultValue={vm.snapshots?.schedule ?? ""}
              isRequired
            />
          )}
          {choice !== "off" && (
            <div className="field-row">
              <NameField
                name="snapshots.timeZone"
                label={t("schedule.timeZone")}
                hint={t("schedule.timeZoneHint")}
                defaultValue={vm.snapshots === undefined ? here() : (vm.snapshots.timeZone ?? "")}
              />
              <NameField
                name="snapshots.keep"
                label={t("schedule.keep")}
                hint={t("schedule.keepHint")}
                type="number"
                defaultValue={String(vm.snapshots?.keep ?? 7)}
              />
            </div>
          )}
        </Form>
      )}
    </Section>
  );
}

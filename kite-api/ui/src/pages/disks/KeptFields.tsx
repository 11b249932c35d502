import type { Snapshot } from "../../api/types";
import { EndField, Field } from "../../components/Field";
import { given } from "../../components/Form";
import { Switch } from "../../components/Switch";
import { useT } from "../../i18n";
import { fromLocalInput, toLocalInput } from "../../lib/time";

/** What a snapshot is for, and how long it is kept. */
export function KeptFields({ snapshot }: { snapshot?: Snapshot }) {
  const t = useT();
  return (
    <>
      <Field
        name="description"
        label={t("description")}
        rows={2}
        maxLength={1024}
        defaultValue={snapshot?.description ?? ""}
      />
      <EndField
        name="keepUntil"
        label={t("snapshot.keepUntil")}
        hint={t("snapshot.keepUntilHint")}
        defaultEnd={toLocalInput(snapshot?.keepUntil)}
      />
      <Switch name="protected" hint={t("snapshot.protectHint")} defaultSelected={snapshot?.protected ?? false}>
        {t("snapshot.protect")}
      </Switch>
    </>
  );
}

/** What was written there; of the end null where there is none. */
export const readKept = (data: FormData) => ({
  description: given(data, "description"),
  keepUntil: fromLocalInput(String(data.get("keepUntil") ?? "")),
  protected: data.get("protected") === "on",
});

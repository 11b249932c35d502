import type { AccessLevel, Quota, User } from "../../api/types";
import { Field, NameField } from "../../components/Field";
import { given } from "../../components/Form";
import { Select } from "../../components/Select";
import { useT } from "../../i18n";

export const LEVELS: readonly AccessLevel[] = ["ReadOnly", "User", "Manager", "Admin"];

/** Access level and email address of an account. */
export function UserFields({ user, self = false }: { user?: User; self?: boolean }) {
  const t = useT();
  return (
    <>
      <Field name="email" type="email" label={t("email.optional")} autoComplete="off" defaultValue={user?.email ?? ""} />
      <Select
        name="accessLevel"
        label={t("user.level")}
        hint={self ? t("user.levelSelf") : t("user.levelHint")}
        defaultValue={user?.accessLevel ?? "User"}
        isDisabled={self}
        options={LEVELS.map((value) => ({ value, text: t(`level.${value}`) }))}
      />
    </>
  );
}

/** Most that an account may use. */
export function QuotaFields({ quota }: { quota: Quota }) {
  const t = useT();
  return (
    <div className="field-row even">
      <NameField name="quotaVms" label={t("quota.vms")} type="number" defaultValue={String(quota.vms)} />
      <NameField name="quotaCpu" label={t("quota.cpu")} type="number" defaultValue={String(quota.cpu)} />
      <NameField name="quotaMemory" label={t("quota.memory")} defaultValue={quota.memory} />
      <NameField name="quotaDisk" label={t("quota.disk")} defaultValue={quota.disk} />
    </div>
  );
}

/** The quota that was typed, if it is another one. */
export function readQuota(data: FormData, before: Quota): Quota | undefined {
  const quota: Quota = {
    ...before,
    vms: Number(given(data, "quotaVms") ?? before.vms),
    cpu: Number(given(data, "quotaCpu") ?? before.cpu),
    memory: given(data, "quotaMemory") ?? before.memory,
    disk: given(data, "quotaDisk") ?? before.disk,
  };
  const same = (Object.keys(quota) as (keyof Quota)[]).every((key) => quota[key] === before[key]);
  return same ? undefined : quota;
}


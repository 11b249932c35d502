import { useState } from "react";
import * as calls from "../../api/calls";
import type { InviteMade, Quota } from "../../api/types";
import { Button } from "../../components/Button";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { EndField, Field } from "../../components/Field";
import { chosen, Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { Select } from "../../components/Select";
import { Switch } from "../../components/Switch";
import { useT } from "../../i18n";
import { fromLocalInput } from "../../lib/time";
import { LEVELS, QuotaFields, readQuota } from "./UserFields";

/** What is proposed to whoever wants to say how much the account may use. */
const QUOTA: Quota = { vms: 5, cpu: 8, memory: "16Gi", disk: "200Gi" };

interface Props {
  onClose: () => void;
  onCreated: () => Promise<unknown>;
}

/** Makes an invite and shows its link, which nobody can see again. */
export function NewInvite({ onClose, onCreated }: Props) {
  const t = useT();
  const [made, setMade] = useState<InviteMade | null>(null);
  const [limits, setLimits] = useState(false);
  const send = async (data: FormData) => {
    const invite = await calls.createInvite({
      note: given(data, "note"),
      email: given(data, "email"),
      accessLevel: chosen(data, "accessLevel", LEVELS),
      quota: limits ? (readQuota(data, QUOTA) ?? QUOTA) : undefined,
      expiresAt: fromLocalInput(String(data.get("expiresAt") ?? "")) ?? undefined,
    });
    setMade(invite);
    await onCreated();
  };
  return (
    <Dialog title={t("invites.new")} isOpen onClose={onClose}>
      {made === null ? (
        <Form submit={t("invites.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
          <Field name="note" label={t("invites.note")} hint={t("invites.noteHint")} maxLength={200} autoFocus />
          <Field name="email" type="email" label={t("email.optional")} hint={t("invites.emailHint")} autoComplete="off" />
          <Select
            name="accessLevel"
            label={t("user.level")}
            hint={t("user.levelHint")}
            defaultValue="User"
            options={LEVELS.map((value) => ({ value, text: t(`level.${value}`) }))}
          />
          <Switch name="hasQuota" onChange={setLimits} hint={t("invites.quotaHint")}>
            {t("invites.quota")}
          </Switch>
          {limits && <QuotaFields quota={QUOTA} />}
          <EndField name="expiresAt" label={t("invites.expiresAt")} hint={t("invites.expiresAtHint")} />
        </Form>
      ) : (
        <div className="form">
          <Notice tone="warn">{t("invites.send")}</Notice>
          <CopyText text={made.url ?? linkHere(made.token)} label={t("invites.link")} />
          <p>{t("invites.orToken")}</p>
          <CopyText text={made.token} label={t("signUp.invite")} />
          <div className="form-actions">
            <Button look="primary" onPress={onClose}>
              {t("done")}
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

/** Where the platform does not know its own address, this page does. */
function linkHere(token: string): string {
  return `${window.location.origin}/sign-up#invite=${encodeURIComponent(token)}`;
}

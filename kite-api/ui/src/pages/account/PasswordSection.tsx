import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import { Form } from "../../components/Form";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";

/** Another password; it ends all other sessions. */
export function PasswordSection() {
  const t = useT();
  const toast = useToast();
  const { hasPassword } = useAccount();
  // Another form for every password, with empty fields.
  const [round, setRound] = useState(0);
  const send = async (data: FormData) => {
    await calls.changePassword({
      ...(hasPassword ? { currentPassword: String(data.get("currentPassword") ?? "") } : {}),
      newPassword: String(data.get("newPassword") ?? ""),
    });
    setRound(round + 1);
    toast(t("account.passwordDone"));
    await Promise.all([keys.sessions, keys.me].map((queryKey) => queries.invalidateQueries({ queryKey })));
  };
  return (
    <Section title={t("account.password")} lead={t("account.passwordLead")}>
      <Form onlyComplete key={round} submit={t("account.passwordSubmit")} send={send}>
        {hasPassword && (
          <PasswordField
            name="currentPassword"
            label={t("account.currentPassword")}
            autoComplete="current-password"
            isRequired
          />
        )}
        <PasswordField name="newPassword" label={t("account.newPassword")} hint={t("password.hint")} isRequired />
      </Form>
    </Section>
  );
}

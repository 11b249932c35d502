import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import { Form } from "../../components/Form";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { Switch } from "../../components/Switch";
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
    const endTokens = data.has("endTokens");
    await calls.changePassword({
      ...(hasPassword ? { currentPassword: String(data.get("currentPassword") ?? "") } : {}),
      newPassword: String(data.get("newPassword") ?? ""),
      ...(endTokens ? { endTokens } : {}),
    });
    setRound(round + 1);
    toast(t(endTokens ? "account.passwordDoneTokens" : "account.passwordDone"));
    await Promise.all([keys.sessions, keys.tokens, keys.me].map((queryKey) => queries.invalidateQueries({ queryKey })));
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
        <Switch name="endTokens" hint={t("account.endTokensHint")}>
          {t("account.endTokens")}
        </Switch>
      </Form>
    </Section>
  );
}

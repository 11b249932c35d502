import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { SshKey, VmAccess } from "../../api/types";
import { Form } from "../../components/Form";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { Switch } from "../../components/Switch";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { KeysSincePassword, VmsSincePassword } from "./KeysSincePassword";

/** Another password; it ends all other sessions. */
export function PasswordSection() {
  const t = useT();
  const toast = useToast();
  const { hasPassword } = useAccount();
  // Another form for every password, with empty fields.
  const [round, setRound] = useState(0);
  const [since, setSince] = useState<readonly SshKey[]>([]);
  const [vms, setVms] = useState<readonly VmAccess[]>([]);
  const send = async (data: FormData) => {
    const keepTokens = data.has("keepTokens");
    const { keysSincePassword, vmAccessSincePassword } = await calls.changePassword({
      ...(hasPassword ? { currentPassword: String(data.get("currentPassword") ?? "") } : {}),
      newPassword: String(data.get("newPassword") ?? ""),
      ...(keepTokens ? { keepTokens } : {}),
    });
    setRound(round + 1);
    setSince(keysSincePassword ?? []);
    setVms(vmAccessSincePassword ?? []);
    toast(t(keepTokens ? "account.passwordDoneKept" : "account.passwordDone"));
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
        <Switch name="keepTokens" hint={t("account.keepTokensHint")}>
          {t("account.keepTokens")}
        </Switch>
      </Form>
      <KeysSincePassword of={since} onClose={() => setSince([])} />
      <VmsSincePassword of={vms} onClose={() => setVms([])} />
    </Section>
  );
}

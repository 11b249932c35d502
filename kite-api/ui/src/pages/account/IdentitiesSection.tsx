import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount, useConfig, useIdentities } from "../../api/queries";
import type { Identity, Provider, Sent } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Dialog } from "../../components/Dialog";
import { Form } from "../../components/Form";
import { IdentityText } from "../../components/IdentityText";
import { Loaded } from "../../components/Loaded";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";

const unlink = async (id: string) => {
  await calls.unlinkIdentity(id);
  await Promise.all([keys.identities, keys.sessions].map((queryKey) => queries.invalidateQueries({ queryKey })));
};

/** At which providers one may sign in; nothing where there are none. */
export function IdentitiesSection() {
  const t = useT();
  const { hasPassword } = useAccount();
  const providers = useConfig().data?.signInProviders ?? [];
  const identities = useIdentities();
  const [linking, setLinking] = useState<Provider | null>(null);
  const [leaving, setLeaving] = useState<Identity | null>(null);
  const close = () => setLinking(null);
  if (providers.length === 0 && (identities.data ?? []).length === 0) return null;

  const link = async (provider: Provider, data?: FormData) => {
    const password = data?.has("password") ? String(data.get("password")) : undefined;
    const body: Sent<"Link"> = { provider: provider.name, password };
    window.location.assign((await calls.linkIdentity(body)).url);
  };

  return (
    <Section title={t("identities.title")} lead={t("identities.lead")}>
      <Loaded query={identities}>
        {(identities) => (
          <ul className="rows" aria-label={t("identities.title")}>
            {identities.map((identity) => {
              const { id, issuer, subject, displayName } = identity;
              return (
                <li key={id}>
                  <IdentityText issuer={issuer} subject={subject} provider={displayName} />
                  <Button
                    small
                    aria-label={t("identities.unlinkOf", { provider: displayName ?? issuer })}
                    onPress={() => setLeaving(identity)}
                  >
                    {t("identities.unlink")}
                  </Button>
                </li>
              );
            })}
            {providers
              .filter(({ name }) => !identities.some(({ provider }) => provider === name))
              .map((provider) => (
                <li key={provider.name}>
                  <div>
                    <strong>{provider.displayName}</strong>
                    <small>{t("identities.none")}</small>
                  </div>
                  {hasPassword ? (
                    <Button
                      small
                      aria-label={t("identities.linkOf", { provider: provider.displayName })}
                      onPress={() => setLinking(provider)}
                    >
                      {t("identities.link")}
                    </Button>
                  ) : (
                    <ActionButton
                      small
                      aria-label={t("identities.linkOf", { provider: provider.displayName })}
                      act={() => link(provider)}
                    >
                      {t("identities.link")}
                    </ActionButton>
                  )}
                </li>
              ))}
          </ul>
        )}
      </Loaded>
      <Confirm
        title={t("identities.unlink")}
        submit={t("identities.unlink")}
        consequence={t(leaving?.current ? "identities.unlinkCurrent" : "identities.unlinkOther")}
        done={t("identities.unlinked")}
        isOpen={leaving !== null}
        onClose={() => setLeaving(null)}
        send={() => unlink(leaving?.id ?? "")}
      />
      <Dialog title={t("identities.title")} isOpen={linking !== null} onClose={close}>
        {linking !== null && (
          <Form
            onlyComplete
            submit={t("identities.goTo", { provider: linking.displayName })}
            extra={<Button onPress={close}>{t("cancel")}</Button>}
            send={(data) => link(linking, data)}
          >
            <p>{t("identities.proof")}</p>
            <PasswordField name="password" label={t("password")} autoComplete="current-password" autoFocus isRequired />
          </Form>
        )}
      </Dialog>
    </Section>
  );
}

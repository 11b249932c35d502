import { useEffect, useRef, useState } from "react";
import * as calls from "../api/calls";
import { isProblemOf } from "../api/problem";
import type { ProofWanted } from "../api/proof";
import { keys, queries, useConfig, useMe } from "../api/queries";
import type { Me, Provider } from "../api/types";
import { Button } from "../components/Button";
import { CodeField } from "../components/CodeField";
import { Dialog } from "../components/Dialog";
import { Form, given } from "../components/Form";
import { PasswordField } from "../components/PasswordField";
import { useT } from "../i18n";

/** How often to look whether somebody has signed in in another tab. */
const LOOK_MS = 2000;

/** Asks for the password, or for a sign-in at the provider in another tab. What waits for
 * it stays as it is beneath. */
export default function ProofDialog({ wanted }: { wanted: ProofWanted }) {
  const t = useT();
  const me = useMe().data;
  const config = useConfig().data;
  const close = () => wanted.end(false);
  // What waits is not sent in the name of somebody else, nor of a later session.
  const asked = useRef<string>(undefined);
  if (me) asked.current ??= me.name;
  const isOver = me === null || (me !== undefined && me.name !== asked.current);
  useEffect(() => {
    if (isOver) wanted.end(false);
  }, [isOver, wanted]);
  if (!me || isOver) return null;
  const issuers = new Set(me.identities.map(({ issuer }) => issuer));
  const providers = issuers.size === 0 ? [] : (config?.signInProviders ?? []);
  return (
    <Dialog title={t("proof.title")} isOpen onClose={close}>
      {me.hasPassword && <ByPassword onProved={() => wanted.end(true)} onCancel={close} />}
      {providers.length > 0 && <ByProvider me={me} providers={providers} onProved={() => wanted.end(true)} />}
      {!me.hasPassword && (
        <div className="form">
          <div className="form-actions">
            <Button onPress={close}>{t("cancel")}</Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

function ByPassword({ onProved, onCancel }: { onProved: () => void; onCancel: () => void }) {
  const t = useT();
  const [needsCode, setNeedsCode] = useState(false);
  const send = async (data: FormData) => {
    const code = given(data, "code");
    try {
      await calls.prove({ password: String(data.get("password")), ...(code === undefined ? {} : { code }) });
    } catch (error) {
      if (isProblemOf(error, "second-factor-required") && !needsCode) return setNeedsCode(true);
      throw error;
    }
    onProved();
  };
  return (
    <Form onlyComplete submit={t("proof.submit")} extra={<Button onPress={onCancel}>{t("cancel")}</Button>} send={send}>
      <p>{t("proof.lead")}</p>
      <PasswordField name="password" label={t("password")} autoComplete="current-password" autoFocus isRequired />
      {needsCode && <CodeField autoFocus />}
    </Form>
  );
}

interface ByProviderProps {
  me: Me;
  providers: readonly Provider[];
  onProved: () => void;
}

/** A sign-in in another tab gives this one another session, too. */
function ByProvider({ me, providers, onProved }: ByProviderProps) {
  const t = useT();
  useEffect(() => {
    let over = false;
    const look = async () => {
      const now = await calls.getMe().catch(() => undefined);
      // As somebody else nothing goes on.
      if (over || now === undefined || now.name !== me.name || now.provedUntil === undefined) return;
      over = true;
      queries.setQueryData(keys.me, now);
      onProved();
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [me.name, onProved]);
  return (
    <div className="form">
      <p>{t(me.hasPassword ? "proof.orProvider" : "proof.provider")}</p>
      {providers.map(({ name, displayName }) => (
        <a
          key={name}
          className="button plain wide"
          href={`/api/v1/auth/oidc/${encodeURIComponent(name)}?returnTo=%2Fproved`}
          target="_blank"
          rel="noreferrer"
        >
          {t("proof.with", { provider: displayName })}
        </a>
      ))}
    </div>
  );
}

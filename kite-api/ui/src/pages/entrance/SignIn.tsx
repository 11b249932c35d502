import { useState } from "react";
import { Link } from "react-router";
import * as calls from "../../api/calls";
import { isProblemOf } from "../../api/problem";
import { useConfig } from "../../api/queries";
import { CodeField } from "../../components/CodeField";
import { Form, given } from "../../components/Form";
import { NameField } from "../../components/Field";
import { Notice } from "../../components/Notice";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";
import { Entrance, entered, useEntranceState } from "./Entrance";

export function SignIn() {
  const t = useT();
  const config = useConfig().data;
  const state = useEntranceState();
  const [needsCode, setNeedsCode] = useState(false);

  const send = async (data: FormData) => {
    const code = given(data, "code");
    try {
      await calls.signIn({
        username: given(data, "username") ?? "",
        password: String(data.get("password")),
        ...(code === undefined ? {} : { code }),
      });
    } catch (error) {
      if (isProblemOf(error, "second-factor-required") && !needsCode) return setNeedsCode(true);
      throw error;
    }
    await entered();
  };

  return (
    <Entrance title={t("signIn.title")} lead={t("signIn.lead")}>
      {state.why === "ended" && <Notice tone="warn">{t("signIn.ended")}</Notice>}
      {state.why === "signed-out" && <Notice tone="good">{t("signIn.signedOut")}</Notice>}
      <Form onlyComplete submit={t("signIn.submit")} send={send}>
        <NameField name="username" label={t("username")} autoComplete="username" autoFocus isRequired />
        <PasswordField name="password" label={t("password")} autoComplete="current-password" isRequired />
        {needsCode && <CodeField autoFocus />}
      </Form>
      {config?.signInProviders.map(({ name, displayName }) => (
        <a key={name} className="button plain wide" href={signInAt(name, state.next)}>
          {t("signIn.with", { provider: displayName })}
        </a>
      ))}
      <p className="other">
        {config !== undefined && config.signUp !== "Closed" && (
          <Link to="/sign-up" state={state.next ? { next: state.next } : null}>
            {t("signIn.toSignUp")}
          </Link>
        )}
        {config?.bootstrapOpen && <Link to="/bootstrap">{t("signIn.toBootstrap")}</Link>}
      </p>
    </Entrance>
  );
}

/** Where a browser leaves for a provider, and comes back to `next`. */
function signInAt(provider: string, next: string | undefined): string {
  const query = next === undefined ? "" : `?${new URLSearchParams({ returnTo: next })}`;
  return `/api/v1/auth/oidc/${encodeURIComponent(provider)}${query}`;
}

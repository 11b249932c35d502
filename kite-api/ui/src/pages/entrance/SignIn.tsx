import { Link } from "react-router";
import { useConfig } from "../../api/queries";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { Entrance, entered, useEntranceState } from "./Entrance";
import { SignInForm } from "./SignInForm";

export function SignIn() {
  const t = useT();
  const config = useConfig().data;
  const state = useEntranceState();

  return (
    <Entrance title={t("signIn.title")} lead={t("signIn.lead")}>
      {state.why === "ended" && <Notice tone="warn">{t("signIn.ended")}</Notice>}
      {state.why === "signed-out" && <Notice tone="good">{t("signIn.signedOut")}</Notice>}
      <SignInForm onSignedIn={entered} />
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
export function signInAt(provider: string, next: string | undefined): string {
  const query = next === undefined ? "" : `?${new URLSearchParams({ returnTo: next })}`;
  return `/api/v1/auth/oidc/${encodeURIComponent(provider)}${query}`;
}

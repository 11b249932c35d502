import { useConfig } from "../api/queries";
import { Notice } from "../components/Notice";
import { useT } from "../i18n";
import { en } from "../i18n/en";
import { forgetFailure, useFailure } from "./failure";

const PREFIX = "provider.failed.";
type FailedKey = Extract<keyof typeof en, `provider.failed.${string}`>;

const isKnown = (key: string): key is FailedKey => Object.hasOwn(en, key);

/** Says why a sign-in at a provider, or linking one, came to nothing. */
export function ProviderFailed() {
  const t = useT();
  const providers = useConfig().data?.signInProviders ?? [];
  const failure = useFailure();
  if (failure === null) return null;
  const key = PREFIX + failure.code;
  const provider = providers.find(({ name }) => name === failure.provider);
  return (
    <Notice tone="bad" onClose={forgetFailure}>
      {t(isKnown(key) ? key : "provider.failed.error", { provider: provider?.displayName ?? t("provider.unnamed") })}
    </Notice>
  );
}

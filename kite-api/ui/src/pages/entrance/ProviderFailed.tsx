import { useSearchParams } from "react-router";
import { useConfig } from "../../api/queries";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { en } from "../../i18n/en";

const PREFIX = "provider.failed.";
type FailedKey = Extract<keyof typeof en, `provider.failed.${string}`>;

const isKnown = (key: string): key is FailedKey => Object.hasOwn(en, key);

/** Says why a sign-in at a provider came to nothing. The address has a code alone. */
export function ProviderFailed() {
  const t = useT();
  const providers = useConfig().data?.signInProviders ?? [];
  const [query] = useSearchParams();
  const code = query.get("failed");
  if (code === null) return null;
  const key = PREFIX + code;
  const provider = providers.find(({ name }) => name === query.get("provider"));
  return (
    <Notice tone="bad">
      {t(isKnown(key) ? key : "provider.failed.error", { provider: provider?.displayName ?? t("provider.unnamed") })}
    </Notice>
  );
}

import { useT } from "../i18n";
import { NameField } from "./Field";

/** A code of the second factor: what the app shows, or a recovery code. */
export function CodeField({ autoFocus = false }: { autoFocus?: boolean }) {
  const t = useT();
  return (
    <NameField
      name="code"
      label={t("signIn.code")}
      hint={t("signIn.codeHint")}
      autoComplete="one-time-code"
      autoFocus={autoFocus}
      isRequired
    />
  );
}

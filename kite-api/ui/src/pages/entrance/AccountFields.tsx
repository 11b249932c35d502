import { Field, NameField } from "../../components/Field";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";

/** What a new account needs. */
export function AccountFields({ autoFocus = true }: { autoFocus?: boolean }) {
  const t = useT();
  return (
    <>
      <NameField
        name="username"
        label={t("username")}
        hint={t("username.hint")}
        autoComplete="username"
        maxLength={32}
        autoFocus={autoFocus}
        isRequired
      />
      <Field name="email" type="email" label={t("email.optional")} autoComplete="email" />
      <PasswordField name="password" label={t("password")} hint={t("password.hint")} isRequired />
    </>
  );
}

import { Field, NameField, USERNAME } from "../../components/Field";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";

interface Props {
  autoFocus?: boolean;
  /** An invite may be for one address, which then has to be given. */
  invited?: boolean;
}

/** What a new account needs. */
export function AccountFields({ autoFocus = true, invited = false }: Props) {
  const t = useT();
  return (
    <>
      <NameField
        name="username"
        label={t("username")}
        hint={t("username.hint")}
        autoComplete="username"
        pattern={USERNAME}
        maxLength={32}
        autoFocus={autoFocus}
        isRequired
      />
      <Field
        name="email"
        type="email"
        label={t(invited ? "email" : "email.optional")}
        {...(invited ? { hint: t("signUp.emailHint") } : {})}
        autoComplete="email"
      />
      <PasswordField name="password" label={t("password")} hint={t("password.hint")} isRequired />
    </>
  );
}

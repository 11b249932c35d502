import { useState } from "react";
import * as calls from "../../api/calls";
import { isProblemOf } from "../../api/problem";
import { CodeField } from "../../components/CodeField";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";

interface Props {
  /** Who it was before. */
  username?: string;
  /** Somebody has signed in. */
  onSignedIn: () => Promise<unknown>;
}

/** Username and password, and a code where one is needed. */
export function SignInForm({ username, onSignedIn }: Props) {
  const t = useT();
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
    await onSignedIn();
  };

  return (
    <Form onlyComplete submit={t("signIn.submit")} send={send}>
      <NameField
        name="username"
        label={t("username")}
        autoComplete="username"
        defaultValue={username ?? ""}
        autoFocus={username === undefined}
        isRequired
      />
      <PasswordField
        name="password"
        label={t("password")}
        autoComplete="current-password"
        autoFocus={username !== undefined}
        isRequired
      />
      {needsCode && <CodeField autoFocus />}
    </Form>
  );
}

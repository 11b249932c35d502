import { Link } from "react-router";
import * as calls from "../../api/calls";
import { Form, given } from "../../components/Form";
import { PasswordField } from "../../components/PasswordField";
import { useT } from "../../i18n";
import { AccountFields } from "./AccountFields";
import { Entrance, entered } from "./Entrance";

export function Bootstrap() {
  const t = useT();
  const send = async (data: FormData) => {
    await calls.bootstrap({
      token: given(data, "token") ?? "",
      username: given(data, "username"),
      password: String(data.get("password")),
      email: given(data, "email"),
    });
    await entered();
  };
  return (
    <Entrance title={t("bootstrap.title")} lead={t("bootstrap.lead")}>
      <Form submit={t("bootstrap.submit")} send={send}>
        <PasswordField
          name="token"
          label={t("bootstrap.token")}
          hint={t("bootstrap.tokenHint")}
          autoComplete="off"
          autoFocus
          isRequired
        />
        <AccountFields autoFocus={false} />
      </Form>
      <p className="other">
        <Link to="/sign-in">{t("signUp.toSignIn")}</Link>
      </p>
    </Entrance>
  );
}

import { Link } from "react-router";
import * as calls from "../../api/calls";
import { useConfig } from "../../api/queries";
import { compact, Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { AccountFields } from "./AccountFields";
import { Entrance, entered } from "./Entrance";

export function SignUp() {
  const t = useT();
  const config = useConfig().data;
  const send = async (data: FormData) => {
    await calls.signUp(
      compact({
        username: given(data, "username"),
        password: String(data.get("password")),
        email: given(data, "email"),
      }),
    );
    await entered();
  };
  return (
    <Entrance title={t("signUp.title")} lead={t("signUp.lead")}>
      {config !== undefined && config.signUp !== "Open" ? (
        <Notice tone="off">{t("signUp.closed")}</Notice>
      ) : (
        <Form submit={t("signUp.submit")} send={send}>
          <AccountFields />
        </Form>
      )}
      <p className="other">
        <Link to="/sign-in">{t("signUp.toSignIn")}</Link>
      </p>
    </Entrance>
  );
}

import { Link, useSearchParams } from "react-router";
import * as calls from "../../api/calls";
import { useConfig } from "../../api/queries";
import { compact, Form, given } from "../../components/Form";
import { NameField } from "../../components/Field";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { AccountFields } from "./AccountFields";
import { Entrance, entered } from "./Entrance";

export function SignUp() {
  const t = useT();
  const config = useConfig().data;
  const [search] = useSearchParams();
  const send = async (data: FormData) => {
    await calls.signUp(
      compact({
        username: given(data, "username"),
        password: String(data.get("password")),
        email: given(data, "email"),
        invite: given(data, "invite"),
      }),
    );
    await entered();
  };
  return (
    <Entrance title={t("signUp.title")} lead={t("signUp.lead")}>
      {config?.signUp === "Closed" ? (
        <Notice tone="off">{t("signUp.closed")}</Notice>
      ) : (
        <Form submit={t("signUp.submit")} send={send}>
          {config?.signUp === "Invite" && (
            <NameField
              name="invite"
              label={t("signUp.invite")}
              hint={t("signUp.inviteHint")}
              defaultValue={search.get("invite") ?? ""}
              isRequired
            />
          )}
          <AccountFields />
        </Form>
      )}
      <p className="other">
        <Link to="/sign-in">{t("signUp.toSignIn")}</Link>
      </p>
    </Entrance>
  );
}

import { Link, useLocation } from "react-router";
import * as calls from "../../api/calls";
import { useConfig } from "../../api/queries";
import { NameField } from "../../components/Field";
import { compact, Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { AccountFields } from "./AccountFields";
import { Entrance, entered } from "./Entrance";

/** The invite of the link that was followed: in its fragment, which goes to no server. */
function useInvite(): string {
  return new URLSearchParams(useLocation().hash.slice(1)).get("invite") ?? "";
}

export function SignUp() {
  const t = useT();
  const config = useConfig().data;
  const invite = useInvite();
  const needsInvite = config?.signUp === "Invite";
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
          {(needsInvite || invite !== "") && (
            <NameField
              name="invite"
              label={t("signUp.invite")}
              hint={t("signUp.inviteHint")}
              defaultValue={invite}
              autoFocus={invite === ""}
              isRequired={needsInvite}
            />
          )}
          <AccountFields autoFocus={!needsInvite || invite !== ""} />
        </Form>
      )}
      <p className="other">
        <Link to="/sign-in">{t("signUp.toSignIn")}</Link>
      </p>
    </Entrance>
  );
}

import { useState } from "react";
import { Link, useLocation } from "react-router";
import * as calls from "../../api/calls";
import { useConfig, useMe } from "../../api/queries";
import { Button } from "../../components/Button";
import { NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";
import { useSignOut } from "../../shell/sign-out";
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
  const [isMade, setMade] = useState(false);
  const send = async (data: FormData) => {
    await calls.signUp({
      username: given(data, "username"),
      password: String(data.get("password")),
      email: given(data, "email"),
      invite: given(data, "invite"),
    });
    setMade(true);
    await entered();
  };
  return (
    <Entrance
      title={t("signUp.title")}
      lead={t("signUp.lead")}
      inside={invite === "" || isMade ? undefined : <SignedInAlready />}
    >
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
          <AccountFields autoFocus={!needsInvite || invite !== ""} invited={needsInvite || invite !== ""} />
        </Form>
      )}
      <p className="other">
        <Link to="/sign-in">{t("signUp.toSignIn")}</Link>
      </p>
    </Entrance>
  );
}

/** An invite is for another account than the one that is signed in. */
function SignedInAlready() {
  const t = useT();
  const me = useMe().data;
  const leaving = useSignOut();
  return (
    <>
      <Notice tone="warn">{t("signUp.inside", { name: me?.username ?? "" })}</Notice>
      <Button look="primary" isPending={leaving.isPending} onPress={() => leaving.mutate()}>
        {t("signUp.signOut")}
      </Button>
      <p className="other">
        <Link to="/">{t("signUp.stay")}</Link>
      </p>
    </>
  );
}

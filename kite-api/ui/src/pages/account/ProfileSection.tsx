import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import { Field, KeysField, lines } from "../../components/Field";
import { changed, compact, Form } from "../../components/Form";
import { Section } from "../../components/Page";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";

/** Email address and keys. */
export function ProfileSection() {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const before = me.sshPublicKeys.join("\n");
  const send = async (data: FormData) => {
    const sshPublicKeys = lines(data.get("sshPublicKeys"));
    const body = compact({
      email: changed(data, "email", me.email),
      sshPublicKeys: sshPublicKeys.join("\n") === before ? undefined : sshPublicKeys,
    });
    if (Object.keys(body).length === 0) return toast(t("settings.nothing"));
    await calls.editMe(body);
    await queries.invalidateQueries({ queryKey: keys.me });
    toast(t("settings.saved"));
  };
  return (
    <Section title={t("account.profile")} lead={t("account.profileLead", { name: me.username })}>
      <Form submit={t("save")} send={send}>
        <Field name="email" type="email" label={t("email.optional")} autoComplete="email" defaultValue={me.email ?? ""} />
        <KeysField
          key={before}
          name="sshPublicKeys"
          label={t("vm.sshKeys")}
          hint={t("account.keysHint")}
          defaultKeys={me.sshPublicKeys}
        />
      </Form>
    </Section>
  );
}

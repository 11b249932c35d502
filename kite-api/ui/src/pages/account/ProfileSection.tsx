import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { Me, Sent, SshKey } from "../../api/types";
import { Field, KeysField, lines } from "../../components/Field";
import { changed, Form, isEmpty } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { Section } from "../../components/Page";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { KeyRow } from "./KeysSincePassword";

/** What the form has of the account. */
const editable = ({ email, sshPublicKeys }: Me) => [email, sshPublicKeys];

/** Email address and keys. */
export function ProfileSection() {
  const t = useT();
  const toast = useToast();
  const current = useAccount();
  const basis = useBasis(current, editable);
  const { basis: me } = basis;
  const before = me.sshPublicKeys.join("\n");
  const send = async (data: FormData) => {
    const sshPublicKeys = lines(data.get("sshPublicKeys"));
    const body: Sent<"AccountEdit"> = {
      email: changed(data, "email", me.email),
      sshPublicKeys: sshPublicKeys.join("\n") === before ? undefined : sshPublicKeys,
    };
    if (isEmpty(body)) return toast(t("settings.nothing"));
    const answer = await calls.editMe(body, me.etag);
    basis.saved({ ...me, ...answer });
    await queries.invalidateQueries({ queryKey: keys.me });
    toast(t("settings.saved"));
  };
  return (
    <Section title={t("account.profile")} lead={t("account.profileLead", { name: me.username })}>
      <Outdated of={basis} />
      <Form key={basis.round} submit={t("save")} send={send}>
        <Field name="email" type="email" label={t("email.optional")} autoComplete="email" defaultValue={me.email ?? ""} />
        <KeysField
          key={before}
          name="sshPublicKeys"
          label={t("vm.sshKeys")}
          hint={t("account.keysHint")}
          defaultKeys={me.sshPublicKeys}
        />
      </Form>
      <KeyDates of={current.sshKeys ?? []} />
    </Section>
  );
}

/** Since when each key opens the account's VMs. */
function KeyDates({ of }: { of: readonly SshKey[] }) {
  const t = useT();
  if (of.length === 0) return null;
  return (
    <ul className="rows" aria-label={t("account.keysOf")}>
      {of.map((key) => (
        <KeyRow key={key.publicKey} of={key} />
      ))}
    </ul>
  );
}

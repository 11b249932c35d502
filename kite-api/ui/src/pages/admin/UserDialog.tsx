import Ban from "lucide-react/icons/ban";
import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { Sent, User } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Dialog } from "../../components/Dialog";
import { KeysField, lines } from "../../components/Field";
import { changed, chosen, Form, isEmpty } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { LEVELS, QuotaFields, readQuota, UserFields } from "./UserFields";
import { UserIdentities } from "./UserIdentities";
import { UserRescue } from "./UserRescue";

const refetch = () => queries.invalidateQueries({ queryKey: keys.users });

/** What the form has of an account. */
const editable = ({ email, accessLevel, quota, sshPublicKeys }: User) => [email, accessLevel, quota, sshPublicKeys];

/** Everything that an administrator can change of an account. */
export function UserDialog({ user: current, onClose }: { user: User; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const basis = useBasis(current, editable);
  const { basis: user } = basis;
  const self = useAccount().name === user.name;
  const [deleting, setDeleting] = useState(false);
  const [suspending, setSuspending] = useState(false);
  const { name } = user;
  const send = async (data: FormData) => {
    const level = chosen(data, "accessLevel", LEVELS);
    const sshPublicKeys = lines(data.get("sshPublicKeys"));
    const body: Sent<"UserEdit"> = {
      email: changed(data, "email", user.email),
      accessLevel: level === user.accessLevel || self ? undefined : level,
      quota: readQuota(data, user.quota),
      sshPublicKeys: sshPublicKeys.join("\n") === user.sshPublicKeys.join("\n") ? undefined : sshPublicKeys,
      password: String(data.get("password") ?? "") || undefined,
    };
    if (isEmpty(body)) return toast(t("settings.nothing"));
    await calls.editUser(name, body, user.etag);
    await refetch();
    toast(t("settings.saved"));
    onClose();
  };
  const suspend = (suspended: boolean) => calls.editUser(name, { suspended }).then(refetch);
  return (
    <Dialog title={t("user.title", { name })} isOpen onClose={onClose}>
      <Outdated of={basis} />
      <Form key={basis.round} submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <UserFields user={user} self={self} />
        <QuotaFields quota={user.quota} />
        <KeysField
          name="sshPublicKeys"
          label={t("vm.sshKeys")}
          hint={t("user.keysHint")}
          defaultKeys={user.sshPublicKeys}
        />
        {!self && (
          <PasswordField name="password" label={t("user.newPassword")} hint={t("user.newPasswordHint")} generates />
        )}
      </Form>
      <UserIdentities user={current} self={self} />
      {!self && !current.deleting && <UserRescue user={current} />}
      {!self && !current.deleting && (
        <div className="danger-zone">
          {current.suspended ? (
            <ActionButton act={() => suspend(false)} done={t("user.pardoned", { name })}>
              {t("user.pardon")}
            </ActionButton>
          ) : (
            <Button icon={<Ban aria-hidden />} onPress={() => setSuspending(true)}>
              {t("user.suspend")}
            </Button>
          )}
          <Button look="danger" icon={<Trash2 aria-hidden />} onPress={() => setDeleting(true)}>
            {t("user.delete")}
          </Button>
        </div>
      )}
      <Confirm
        title={t("user.suspendAsk", { name })}
        submit={t("user.suspendSubmit")}
        consequence={t("user.suspendConsequence", { name })}
        done={t("user.suspendedNow", { name })}
        isOpen={suspending}
        onClose={() => setSuspending(false)}
        send={() => suspend(true)}
      />
      <Confirm
        name={name}
        title={t("delete.ask", { name })}
        submit={t("user.deleteSubmit")}
        consequence={t("user.deleteConsequence", { name })}
        done={t("delete.done", { name })}
        isOpen={deleting}
        onClose={() => setDeleting(false)}
        send={async () => {
          await calls.deleteUser(name);
          await refetch();
          onClose();
        }}
      />
    </Dialog>
  );
}


import Ban from "lucide-react/icons/ban";
import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAccount } from "../../api/queries";
import type { User } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Dialog } from "../../components/Dialog";
import { changed, compact, Form, given } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { QuotaFields, readQuota, UserFields } from "./UserFields";
import { UserIdentities } from "./UserIdentities";

const refetch = () => queries.invalidateQueries({ queryKey: keys.users });

/** What the form has of an account. */
const editable = ({ email, accessLevel, quota }: User) => [email, accessLevel, quota];

/** Everything that an administrator can change of an account. */
export function UserDialog({ user: current, onClose }: { user: User; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const basis = useBasis(current, editable);
  const { basis: user } = basis;
  const self = useAccount().name === user.name;
  const [deleting, setDeleting] = useState(false);
  const { name } = user;
  const send = async (data: FormData) => {
    const level = given(data, "accessLevel");
    const body = compact({
      email: changed(data, "email", user.email),
      accessLevel: level === user.accessLevel || self ? undefined : level,
      quota: readQuota(data, user.quota),
      password: String(data.get("password") ?? "") || undefined,
    });
    if (Object.keys(body).length === 0) return toast(t("settings.nothing"));
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
        {!self && (
          <PasswordField name="password" label={t("user.newPassword")} hint={t("user.newPasswordHint")} generates />
        )}
      </Form>
      <UserIdentities user={current} self={self} />
      {!self && !current.deleting && (
        <div className="danger-zone">
          <ActionButton
            icon={<Ban aria-hidden />}
            act={() => suspend(!current.suspended)}
            done={t(current.suspended ? "user.pardoned" : "user.suspendedNow", { name })}
          >
            {t(current.suspended ? "user.pardon" : "user.suspend")}
          </ActionButton>
          <Button look="danger" icon={<Trash2 aria-hidden />} onPress={() => setDeleting(true)}>
            {t("user.delete")}
          </Button>
        </div>
      )}
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


import type { FieldError } from "../../api/problem";
import type { Me } from "../../api/types";
import { KeysField, lines } from "../../components/Field";
import { PasswordField } from "../../components/PasswordField";
import { useAccount } from "../../api/queries";
import { useT, type Translate } from "../../i18n";

/** How one logs in to a new VM. */
export function AccessFields() {
  const t = useT();
  const keys = useAccount().sshPublicKeys.length;
  return (
    <>
      <PasswordField name="sshPassword" label={t("vm.sshPassword")} hint={t("vm.sshPasswordHint")} generates />
      <KeysField
        name="sshPublicKeys"
        label={t("vm.sshKeys")}
        hint={keys > 0 ? t("vm.sshKeysHintOwn", { count: keys }) : t("vm.sshKeysHint")}
      />
    </>
  );
}

const hasAccess = (data: FormData, me: Me) =>
  String(data.get("sshPassword") ?? "") !== "" || lines(data.get("sshPublicKeys")).length + me.sshPublicKeys.length > 0;

/** Without a password and a key nobody could log in. */
export const checkAccess = (data: FormData, me: Me, t: Translate): FieldError[] =>
  hasAccess(data, me) ? [] : [{ field: "sshPassword", message: t("vm.noAccess") }];

/** The password as the API takes it. Where nothing opens the VM it is empty, which the
 * API refuses, together with all else that is wrong. */
export function readPassword(data: FormData, me: Me): string | undefined {
  const password = String(data.get("sshPassword") ?? "");
  return password === "" && hasAccess(data, me) ? undefined : password;
}

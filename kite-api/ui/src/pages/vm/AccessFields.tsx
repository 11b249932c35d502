import type { Me } from "../../api/types";
import { KeysField, lines } from "../../components/Field";
import { Refused } from "../../components/Form";
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

/** Without a password and a key nobody could log in. */
export function requireAccess(data: FormData, me: Me, t: Translate): void {
  if (String(data.get("sshPassword") ?? "") || lines(data.get("sshPublicKeys")).length > 0) return;
  if (me.sshPublicKeys.length > 0) return;
  throw new Refused([{ field: "sshPassword", message: t("vm.noAccess") }]);
}

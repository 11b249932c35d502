import { useState } from "react";
import { KeysField, lines } from "../../components/Field";
import { Notice } from "../../components/Notice";
import { PasswordField } from "../../components/PasswordField";
import { useAccount } from "../../api/queries";
import { useT } from "../../i18n";

/** How one logs in to a new VM. One that opens to nobody may be wanted, and is told of
 * before it is made. */
export function AccessFields() {
  const t = useT();
  const own = useAccount().sshPublicKeys.length;
  const [password, setPassword] = useState("");
  const [keys, setKeys] = useState("");
  const opens = password !== "" || own + lines(keys).length > 0;
  return (
    <>
      <PasswordField
        name="sshPassword"
        label={t("vm.sshPassword")}
        hint={t(own > 0 ? "vm.sshPasswordHintOwn" : "vm.sshPasswordHint")}
        onValue={setPassword}
        generates
      />
      <KeysField
        name="sshPublicKeys"
        label={t("vm.sshKeys")}
        hint={own > 0 ? t("vm.sshKeysHintOwn", { count: own }) : t("vm.sshKeysHintNew")}
        onChange={setKeys}
      />
      {!opens && <Notice tone="warn">{t("vm.noAccess")}</Notice>}
    </>
  );
}

/** The password as the API takes it. */
export const readPassword = (data: FormData): string | undefined => String(data.get("sshPassword") ?? "") || undefined;

import * as calls from "../../api/calls";
import { keys, queries } from "../../api/queries";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { NameField, USERNAME } from "../../components/Field";
import { chosen, Form, given } from "../../components/Form";
import { PasswordField } from "../../components/PasswordField";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { LEVELS, UserFields } from "./UserFields";

export function NewUser({ onClose }: { onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const send = async (data: FormData) => {
    const user = await calls.createUser({
      username: given(data, "username") ?? "",
      email: given(data, "email"),
      accessLevel: chosen(data, "accessLevel", LEVELS),
      password: String(data.get("password") ?? "") || undefined,
    });
    await queries.invalidateQueries({ queryKey: keys.users });
    toast(t("users.created", { name: user.username }));
    onClose();
  };
  return (
    <Dialog title={t("users.new")} isOpen onClose={onClose}>
      <Form submit={t("users.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <NameField name="username" label={t("username")} hint={t("username.hint")} pattern={USERNAME} maxLength={32} autoFocus isRequired />
        <UserFields />
        <PasswordField name="password" label={t("password")} hint={t("users.passwordHint")} generates />
      </Form>
    </Dialog>
  );
}

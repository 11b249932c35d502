import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { NameField } from "./Field";
import { Form, Refused } from "./Form";
import { useToast } from "./Toasts";

interface Props {
  /** What has to be typed, for what cannot be had back. */
  name?: string;
  title: string;
  submit: string;
  consequence: ReactNode;
  done: string;
  isOpen: boolean;
  onClose: () => void;
  send: () => Promise<unknown>;
}

/** Asks before something is gone, and for its name where that is for good. */
export function Confirm({ name, title, submit, consequence, done, isOpen, onClose, send }: Props) {
  const t = useT();
  const toast = useToast();
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <Form
        submit={submit}
        look="danger"
        extra={<Button onPress={onClose}>{t("cancel")}</Button>}
        send={async (data) => {
          if (name !== undefined && String(data.get("confirm")).trim() !== name) {
            throw new Refused([{ field: "confirm", message: t("confirm.mismatch", { name }) }]);
          }
          await send();
          toast(done);
          onClose();
        }}
      >
        <p>{consequence}</p>
        {name !== undefined && <NameField name="confirm" label={t("confirm.label", { name })} autoFocus />}
      </Form>
    </Dialog>
  );
}

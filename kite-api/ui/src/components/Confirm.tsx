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
  /** What can be had back at once is asked for by one button, which has the focus. */
  isMild?: boolean;
  title: string;
  submit: string;
  consequence: ReactNode;
  done: string;
  isOpen: boolean;
  onClose: () => void;
  /** What else can be said to it. */
  children?: ReactNode;
  send: (data: FormData) => Promise<unknown>;
}

/** Asks before something is gone, and for its name where that is for good. */
export function Confirm({ name, isMild = false, title, submit, consequence, done, isOpen, onClose, children, send }: Props) {
  const t = useT();
  const toast = useToast();
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <Form
        submit={submit}
        look={isMild ? "primary" : "danger"}
        isReady={isMild}
        extra={<Button onPress={onClose}>{t("cancel")}</Button>}
        send={async (data) => {
          if (name !== undefined && String(data.get("confirm")).trim() !== name) {
            throw new Refused([{ field: "confirm", message: t("confirm.mismatch", { name }) }]);
          }
          await send(data);
          toast(done);
          onClose();
        }}
      >
        <p>{consequence}</p>
        {children}
        {name !== undefined && <NameField name="confirm" label={t("confirm.label", { name })} autoFocus />}
      </Form>
    </Dialog>
  );
}

import { endVmSession } from "../../api/calls";
import { keys, queries } from "../../api/queries";
import type { VmSession } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { Field } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";

/** Asks for a reason before somebody is cut off. */
export function EndSession({ session, asOwner, onClose }: { session: VmSession; asOwner: boolean; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  return (
    <Dialog title={t("vmSessions.endTitle", { login: session.login })} isOpen onClose={onClose}>
      <Form
        submit={t("vmSessions.endSubmit")}
        look="danger"
        extra={<Button onPress={onClose}>{t("cancel")}</Button>}
        send={async (data) => {
          await endVmSession(session, asOwner, given(data, "reason"));
          void queries.invalidateQueries({ queryKey: keys.vmSessions });
          toast(t("vmSessions.endDone"));
          onClose();
        }}
      >
        <p>{t("vmSessions.endLead")}</p>
        <Field name="reason" label={t("vmSessions.reason")} maxLength={200} autoFocus />
      </Form>
    </Dialog>
  );
}

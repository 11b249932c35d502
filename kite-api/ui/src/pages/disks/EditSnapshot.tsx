import * as calls from "../../api/calls";
import { refetchDisks, useAccount } from "../../api/queries";
import type { Snapshot } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { changed, Form } from "../../components/Form";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { toLocalInput } from "../../lib/time";
import { KeptFields, readKept } from "./KeptFields";

/** The dialog that changes for how long a snapshot is kept. */
export default function EditSnapshot({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const { name, owner } = snapshot;
  const send = async (data: FormData) => {
    const kept = readKept(data);
    const isSame = String(data.get("keepUntil") ?? "") === toLocalInput(snapshot.keepUntil);
    const edit = {
      description: changed(data, "description", snapshot.description),
      keepUntil: isSame ? undefined : kept.keepUntil,
      protected: kept.protected === snapshot.protected ? undefined : kept.protected,
    };
    await calls.editSnapshot({ name, owner: owner === me.name ? undefined : owner }, edit, snapshot.etag);
    await refetchDisks();
    toast(t("settings.saved"));
    onClose();
  };
  return (
    <Dialog title={name} isOpen onClose={onClose}>
      <Form submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <KeptFields snapshot={snapshot} />
      </Form>
    </Dialog>
  );
}

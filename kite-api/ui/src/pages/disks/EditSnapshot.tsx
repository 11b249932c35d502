import * as calls from "../../api/calls";
import { refetchDisks, useAccount } from "../../api/queries";
import type { Snapshot } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { changed, Form } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { toLocalInput } from "../../lib/time";
import { KeptFields, readKept } from "./KeptFields";

const editable = ({ description, keepUntil, protected: isProtected }: Snapshot) => [description, keepUntil, isProtected];

/** The dialog that changes for how long a snapshot is kept. */
export default function EditSnapshot({ snapshot: current, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const t = useT();
  const basis = useBasis(current, editable);
  const { basis: snapshot } = basis;
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
      <Outdated of={basis} />
      <Form key={basis.round} submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <KeptFields snapshot={snapshot} />
      </Form>
    </Dialog>
  );
}

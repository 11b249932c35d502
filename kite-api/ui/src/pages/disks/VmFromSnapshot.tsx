import { useNavigate } from "react-router";
import * as calls from "../../api/calls";
import { putVm } from "../../api/queries";
import type { Snapshot } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { LABEL, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { AccessFields, readPassword } from "../vm/AccessFields";
import { MoreFields, readMore } from "../vm/MoreFields";
import { readSizeFields, SizeFields } from "../vms/SizeFields";

/** The dialog that creates a VM whose disk is copied from a snapshot. */
export default function VmFromSnapshot({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const navigate = useNavigate();
  const { source, size } = snapshot.status;
  const send = async (data: FormData) => {
    const vm = await calls.createVm({
      name: given(data, "name") ?? "",
      image: source?.image,
      fromSnapshot: snapshot.name,
      ...readSizeFields(data),
      sshPassword: readPassword(data),
      ...readMore(data),
    });
    putVm(vm);
    toast(t("create.done", { name: vm.name }));
    onClose();
    void navigate(`/vms/${encodeURIComponent(vm.name)}`);
  };
  const known = source !== undefined && size !== undefined;
  return (
    <Dialog title={t("snapshot.vmTitle", { name: snapshot.name })} isOpen onClose={onClose} wide>
      <Form submit={t("create.submit")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <p>{t("snapshot.vmLead")}</p>
        <NameField name="name" label={t("vm.name")} hint={t("vm.nameHint")} pattern={LABEL} maxLength={52} autoFocus isRequired />
        <SizeFields {...(known ? { size: { cpu: source.cpu, memory: source.memory, disk: size } } : {})} />
        <AccessFields />
        <MoreFields create />
      </Form>
    </Dialog>
  );
}

import * as calls from "../../api/calls";
import { refetchDisks, useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { LABEL, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { isRunning } from "../../lib/vm";
import { KeptFields, readKept } from "./KeptFields";

/** The dialog that takes a snapshot of a VM. */
export default function TakeSnapshot({ vm, onClose }: { vm: Vm; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const send = async (data: FormData) => {
    const name = given(data, "name") ?? "";
    const { keepUntil, ...kept } = readKept(data);
    const owner = vm.owner === me.name ? undefined : vm.owner;
    await calls.createSnapshot(owner, { name, vm: vm.name, ...kept, keepUntil: keepUntil ?? undefined });
    await refetchDisks();
    toast(t("snapshot.begun", { name }));
    onClose();
  };
  return (
    <Dialog title={t("snapshot.takeOf", { name: vm.name })} isOpen onClose={onClose}>
      <Form submit={t("snapshot.take")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <p>{t(isRunning(vm) ? "snapshot.whileRunning" : "snapshot.whileOff")}</p>
        <NameField
          name="name"
          label={t("vm.name")}
          hint={t("vm.nameHint")}
          pattern={LABEL}
          maxLength={63}
          defaultValue={suggestion(vm.name)}
          autoFocus
          isRequired
        />
        <KeptFields />
      </Form>
    </Dialog>
  );
}

/** `web-20260504-0805`, by the reader's clock. */
function suggestion(vm: string, now = new Date()): string {
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  return `${vm.slice(0, 49)}-${day}-${two(now.getHours())}${two(now.getMinutes())}`.replace(/-+/g, "-");
}

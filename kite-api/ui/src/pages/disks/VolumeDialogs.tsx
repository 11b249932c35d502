import * as calls from "../../api/calls";
import { refetchDisks } from "../../api/queries";
import type { Volume } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { Field, LABEL, NameField } from "../../components/Field";
import { changed, Form, given } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { Switch } from "../../components/Switch";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";

/** The dialog that creates a volume. */
export function NewVolume({ onClose }: { onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const send = async (data: FormData) => {
    const name = given(data, "name") ?? "";
    await calls.createVolume(undefined, {
      name,
      size: given(data, "size"),
      description: given(data, "description"),
      onAccountDeletion: fate(data),
    });
    await refetchDisks();
    toast(t("volume.created", { name }));
    onClose();
  };
  return (
    <Dialog title={t("volumes.new")} isOpen onClose={onClose}>
      <Form submit={t("volumes.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <NameField name="name" label={t("vm.name")} hint={t("vm.nameHint")} pattern={LABEL} maxLength={52} autoFocus isRequired />
        <Fields />
      </Form>
    </Dialog>
  );
}

const fate = (data: FormData): Volume["onAccountDeletion"] => (data.get("keep") === "on" ? "Keep" : "Delete");

const editable = ({ size, description, onAccountDeletion }: Volume) => [size, description, onAccountDeletion];

/** The dialog that changes one; of another account's its owner is named. */
export function EditVolume({ volume: current, owner, onClose }: { volume: Volume; owner?: string; onClose: () => void }) {
  const t = useT();
  const basis = useBasis(current, editable);
  const { basis: volume } = basis;
  const toast = useToast();
  const { name, etag } = volume;
  const send = async (data: FormData) => {
    const size = given(data, "size");
    const edit = {
      size: size === volume.size ? undefined : size,
      description: changed(data, "description", volume.description),
      onAccountDeletion: fate(data) === volume.onAccountDeletion ? undefined : fate(data),
    };
    await calls.editVolume({ name, owner }, edit, etag);
    await refetchDisks();
    toast(t("settings.saved"));
    onClose();
  };
  return (
    <Dialog title={name} isOpen onClose={onClose}>
      <Outdated of={basis} />
      <Form key={basis.round} onlyComplete submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <Fields volume={volume} />
      </Form>
    </Dialog>
  );
}

function Fields({ volume }: { volume?: Volume }) {
  const t = useT();
  return (
    <>
      <NameField
        name="size"
        label={t("quota.disk")}
        hint={t(volume === undefined ? "volume.sizeHint" : "size.diskHint")}
        defaultValue={volume?.size ?? "10Gi"}
        isRequired
      />
      <Field name="description" label={t("description")} rows={2} maxLength={1024} defaultValue={volume?.description ?? ""} />
      <Switch name="keep" hint={t("volume.outlivesHint")} defaultSelected={volume?.onAccountDeletion === "Keep"}>
        {t("volume.outlives")}
      </Switch>
    </>
  );
}

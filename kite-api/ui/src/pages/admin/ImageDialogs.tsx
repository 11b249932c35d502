import * as calls from "../../api/calls";
import { keys, queries } from "../../api/queries";
import type { Image } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { DOTTED, Field, NameField } from "../../components/Field";
import { changed, Form, given } from "../../components/Form";
import { Outdated } from "../../components/Outdated";
import { Select } from "../../components/Select";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { ImageAddress } from "./ImageAddress";

/** Families, by the systems that are of them: names, which are the same in every language. */
const FAMILIES: readonly { value: Image["osFamily"]; text: string }[] = [
  { value: "Debian", text: "Debian, Ubuntu" },
  { value: "RedHat", text: "Fedora, CentOS, RHEL, Rocky, Alma" },
  { value: "Suse", text: "openSUSE, SLES" },
  { value: "Alpine", text: "Alpine Linux" },
  { value: "Arch", text: "Arch Linux" },
  { value: "Windows", text: "Windows" },
];

/** Asks for the catalogue anew. */
export const refetchImages = async () => {
  await Promise.all([keys.images, keys.allImages].map((queryKey) => queries.invalidateQueries({ queryKey })));
};

/** The dialog that adds an image to the catalogue. */
export function NewImage({ onClose }: { onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const send = async (data: FormData) => {
    const name = given(data, "name") ?? "";
    await calls.createImage({
      name,
      url: given(data, "url"),
      checksum: given(data, "checksum"),
      osFamily: given(data, "osFamily") as Image["osFamily"],
      minDisk: given(data, "minDisk"),
      displayName: given(data, "displayName"),
      description: given(data, "description"),
      refreshSchedule: given(data, "refreshSchedule"),
    });
    await refetchImages();
    toast(t("images.added", { name }));
    onClose();
  };
  return (
    <Dialog title={t("images.new")} isOpen onClose={onClose}>
      <Form submit={t("images.add")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <NameField name="name" label={t("vm.name")} hint={t("images.nameHint")} pattern={DOTTED} maxLength={63} autoFocus isRequired />
        <ImageAddress />
        <NameField name="checksum" label={t("images.checksum")} hint={t("images.checksumHint")} maxLength={200} />
        <Select name="osFamily" label={t("images.family")} hint={t("images.familyHint")} defaultValue="Debian" options={FAMILIES} />
        <Said />
        <NameField name="refreshSchedule" label={t("images.refresh")} hint={t("images.refreshHint")} maxLength={100} />
      </Form>
    </Dialog>
  );
}

const editable = ({ displayName, description, minDisk }: Image) => [displayName, description, minDisk];

/** The dialog that changes what is said of one. */
export function EditImage({ image: current, onClose }: { image: Image; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const basis = useBasis(current, editable);
  const { basis: image } = basis;
  const send = async (data: FormData) => {
    const minDisk = given(data, "minDisk");
    const edit = {
      displayName: changed(data, "displayName", image.displayName),
      description: changed(data, "description", image.description),
      minDisk: minDisk === image.minDisk ? undefined : minDisk,
    };
    await calls.editImage(image.name, edit, image.etag);
    await refetchImages();
    toast(t("settings.saved"));
    onClose();
  };
  return (
    <Dialog title={image.name} isOpen onClose={onClose}>
      <Outdated of={basis} />
      <Form key={basis.round} onlyComplete submit={t("save")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <Said image={image} />
      </Form>
    </Dialog>
  );
}

/** What is said of an image. */
function Said({ image }: { image?: Image }) {
  const t = useT();
  return (
    <>
      <NameField name="minDisk" label={t("images.minDisk")} hint={t("images.minDiskHint")} defaultValue={image?.minDisk ?? "5Gi"} isRequired />
      <Field name="displayName" label={t("images.displayName")} maxLength={100} defaultValue={image?.displayName ?? ""} />
      <Field name="description" label={t("description")} rows={2} maxLength={1024} defaultValue={image?.description ?? ""} />
    </>
  );
}

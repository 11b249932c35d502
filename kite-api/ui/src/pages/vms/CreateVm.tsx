import { useState } from "react";
import { useNavigate } from "react-router";
import * as calls from "../../api/calls";
import { isProblemOf, ProblemError } from "../../api/problem";
import { putVm, useAccount, useImages, useVms } from "../../api/queries";
import type { Image, Me, Sent, Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { LABEL, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { bytes, remaining, sum } from "../../lib/sizes";
import { AccessFields, readPassword } from "../vm/AccessFields";
import { MoreFields, readMore } from "../vm/MoreFields";
import { ImageChoice } from "./ImageChoice";
import { atSize, firstSize, readSize, SizeChoice } from "./SizeChoice";

/** The dialog that creates a VM. */
export default function CreateVm({ onClose }: { onClose: () => void }) {
  const t = useT();
  const images = useImages();
  return (
    <Dialog title={t("create.title")} isOpen onClose={onClose} wide>
      <Loaded query={images}>
        {(images) => (images.length === 0 ? <p>{t("create.noImages")}</p> : <CreateForm images={images} onClose={onClose} />)}
      </Loaded>
    </Dialog>
  );
}

function CreateForm({ images, onClose }: { images: readonly Image[]; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const navigate = useNavigate();
  const me = useAccount();
  const left = useRemaining(me);
  const [image, setImage] = useState(() => images.find(({ phase }) => phase === "Ready")?.name ?? images[0]?.name ?? "");
  const chosen = images.find(({ name }) => name === image);
  const minDisk = Math.max(bytes(chosen?.minDisk ?? "0"), bytes(chosen?.size ?? "0"));
  const [size, setSize] = useState(() => firstSize(left));
  const [waiting, setWaiting] = useState(false);

  const send = async (data: FormData) => {
    const body: Sent<"NewVm"> = {
      name: given(data, "name") ?? "",
      image,
      ...readSize(data, size),
      sshPassword: readPassword(data),
      ...readMore(data),
    };
    const vm = await whenReady(body, () => setWaiting(true)).catch((error: unknown) => {
      throw atSize(error, size);
    });
    putVm(vm);
    toast(t("create.done", { name: vm.name }));
    onClose();
    void navigate(`/vms/${encodeURIComponent(vm.name)}`);
  };

  return (
    <Form
      submit={t("create.submit")}
      extra={<Button onPress={onClose}>{t("cancel")}</Button>}
      send={send}
    >
      <NameField name="name" label={t("vm.name")} hint={t("vm.nameHint")} pattern={LABEL} maxLength={52} autoFocus isRequired />
      <ImageChoice images={images} value={image} onChange={setImage} />
      <SizeChoice value={size} onChange={setSize} left={left} minDisk={minDisk} />
      <AccessFields />
      <MoreFields create />
      {waiting && <p role="status">{t("create.waiting")}</p>}
    </Form>
  );
}

/** What is left of the quota. */
function useRemaining(me: Me) {
  const vms = useVms().data ?? [];
  return remaining(me.quota, sum(vms));
}

/** Creates the VM; a new account's space may take some seconds to be made. */
async function whenReady(body: Sent<"NewVm">, onWait: () => void): Promise<Vm> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await calls.createVm(body);
    } catch (error) {
      if (!isProblemOf(error, "not-ready") || attempt === 5) throw error;
      onWait();
      const seconds = error instanceof ProblemError ? (error.retryAfter ?? 1) : 1;
      await new Promise((done) => setTimeout(done, 1000 * seconds));
    }
  }
}

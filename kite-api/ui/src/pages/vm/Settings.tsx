import Trash2 from "lucide-react/icons/trash-2";
import { useEffect, useRef, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Sent, Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { KeysField, lines } from "../../components/Field";
import { changed, chosen, Form, isEmpty } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { Outdated } from "../../components/Outdated";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { Select } from "../../components/Select";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis, type Basis } from "../../lib/basis";
import { mayEnter } from "../../lib/may";
import { readSizeFields, SizeFields } from "../vms/SizeFields";
import { MoreFields, readMoreChanges } from "./MoreFields";
import { VolumesSection } from "./VolumesSection";

const LOGINS = ["KeyOrPassword", "KeyAndPassword"] as const;

/** What the forms below have of a VM. */
const editable = (vm: Vm) => [
  [vm.cpu, vm.memory, vm.disk, vm.sshLogin, vm.sshPublicKeys, vm.hasSshPassword],
  [vm.domainPrefix, vm.idleTimeout, vm.expiresAt, vm.startOnConnect],
  [vm.volumes],
];

/** What can be changed of a VM, and its end: then the page is left. */
export default function Settings({ vm: current, onDelete }: { vm: Vm; onDelete: () => void }) {
  const t = useT();
  const me = useAccount();
  const basis = useBasis(current, editable);
  const forms = useAskedField();
  if (current.deleting) return <Notice tone="busy">{t("settings.deleting")}</Notice>;
  const edit = { basis, owner: current.owner === me.name ? undefined : current.owner };
  return (
    <>
      <Outdated of={basis} />
      <div className="columns" key={basis.round} ref={forms}>
        <SizeSection {...edit} />
        <div className="stack">
          {mayEnter(me, current) && <AccessSection {...edit} />}
          <VolumeSection {...edit} />
          <DeleteSection vm={current} owner={edit.owner} onDelete={onDelete} />
        </div>
      </div>
    </>
  );
}

/** Goes to the field that the address names (`at`), once. */
function useAskedField() {
  const forms = useRef<HTMLDivElement>(null);
  const [search, setSearch] = useSearchParams();
  const at = search.get("at");
  useEffect(() => {
    if (at === null) return;
    const field = forms.current?.querySelector(`[name="${CSS.escape(at)}"]`);
    // Once the tab that was pressed has given up the focus.
    const frame = requestAnimationFrame(() => {
      if (field instanceof HTMLElement) {
        field.focus({ preventScroll: true });
        field.scrollIntoView({ block: "center" });
      }
      setSearch({ tab: "settings" }, { replace: true });
    });
    return () => cancelAnimationFrame(frame);
  }, [at, setSearch]);
  return forms;
}

interface Editing {
  basis: Basis<Vm>;
  /** Absent for one's own VM. */
  owner: string | undefined;
}

/** Sends an edit that changes something, and shows what came of it. */
function useEdit({ basis: { basis: vm, saved }, owner }: Editing) {
  const t = useT();
  const toast = useToast();
  return async (body: Sent<"VmEdit">) => {
    if (isEmpty(body)) return toast(t("settings.nothing"));
    const answer = await calls.editVm({ name: vm.name, owner }, body, vm.etag);
    saved(answer);
    putVm(answer);
    toast(t("settings.saved"));
  };
}

function SizeSection(editing: Editing) {
  const t = useT();
  const edit = useEdit(editing);
  const { basis: vm } = editing.basis;
  const send = async (data: FormData) => {
    const size = readSizeFields(data);
    await edit({
      cpu: size.cpu === vm.cpu ? undefined : size.cpu,
      memory: changed(data, "memory", vm.memory),
      disk: changed(data, "disk", vm.disk),
      ...readMoreChanges(data, vm),
    });
  };
  const fixed = vm.offer !== undefined;
  return (
    <Section title={t("settings.size")} lead={fixed ? t("settings.offered") : t("settings.sizeLead")}>
      <Form onlyComplete submit={t("save")} send={send}>
        <SizeFields size={vm} />
        <MoreFields vm={vm} />
      </Form>
    </Section>
  );
}

function AccessSection(editing: Editing) {
  const t = useT();
  const edit = useEdit(editing);
  const { basis: vm } = editing.basis;
  const send = async (data: FormData, form: HTMLFormElement) => {
    const keys = lines(data.get("sshPublicKeys"));
    const login = chosen(data, "sshLogin", LOGINS) ?? vm.sshLogin;
    await edit({
      sshPassword: String(data.get("sshPassword") ?? "") || undefined,
      sshPublicKeys: keys.join("\n") === vm.sshPublicKeys.join("\n") ? undefined : keys,
      sshLogin: login === vm.sshLogin ? undefined : login,
    });
    form.reset();
  };
  return (
    <Section title={t("settings.access")} lead={t("settings.accessLead")}>
      <Form submit={t("save")} send={send}>
        <PasswordField
          name="sshPassword"
          label={t("settings.newPassword")}
          hint={vm.hasSshPassword ? t("settings.passwordKept") : t("settings.passwordNone")}
          generates
        />
        <KeysField
          key={vm.sshPublicKeys.join("\n")}
          name="sshPublicKeys"
          label={t("vm.sshKeys")}
          hint={t("vm.sshKeysHint")}
          defaultKeys={vm.sshPublicKeys}
        />
        <Select
          key={vm.sshLogin}
          name="sshLogin"
          label={t("settings.login")}
          defaultValue={vm.sshLogin}
          options={LOGINS.map((value) => ({
            value,
            text: t(`settings.${value}`),
          }))}
        />
      </Form>
    </Section>
  );
}

function VolumeSection(editing: Editing) {
  const edit = useEdit(editing);
  return <VolumesSection vm={editing.basis.basis} owner={editing.owner} edit={edit} />;
}

function DeleteSection({ vm, owner, onDelete }: { vm: Vm; owner: string | undefined; onDelete: () => void }) {
  const t = useT();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const { name } = vm;
  return (
    <Section title={t("delete.title")} lead={t("delete.lead")}>
      <div>
        <Button look="danger" icon={<Trash2 aria-hidden />} onPress={() => setAsking(true)}>
          {t("delete.open")}
        </Button>
      </div>
      <Confirm
        name={name}
        title={t("delete.ask", { name })}
        submit={t("delete.submit")}
        consequence={t("delete.consequence", { name })}
        done={t("delete.done", { name })}
        isOpen={asking}
        onClose={() => setAsking(false)}
        send={async () => {
          await calls.deleteVm({ name, owner });
          onDelete();
          putVm({ ...vm, deleting: true });
          void navigate(owner === undefined ? "/" : "/admin/vms");
        }}
      />
    </Section>
  );
}

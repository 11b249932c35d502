import Trash2 from "lucide-react/icons/trash-2";
import { useState } from "react";
import { useNavigate } from "react-router";
import * as calls from "../../api/calls";
import { putVm, useAccount } from "../../api/queries";
import type { Vm } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { KeysField, lines } from "../../components/Field";
import { changed, compact, Form } from "../../components/Form";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { PasswordField } from "../../components/PasswordField";
import { Select } from "../../components/Select";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { mayEnter } from "../../lib/may";
import { readSizeFields, SizeFields } from "../vms/SizeChoice";
import { MoreFields, readMoreChanges } from "./MoreFields";

/** What can be changed of a VM. */
export function Settings({ vm }: { vm: Vm }) {
  const t = useT();
  const me = useAccount();
  if (vm.deleting) return <Notice tone="busy">{t("settings.deleting")}</Notice>;
  return (
    <div className="columns">
      <SizeSection vm={vm} />
      <div className="stack">
        {mayEnter(me, vm) && <AccessSection vm={vm} />}
        <DeleteSection vm={vm} />
      </div>
    </div>
  );
}

/** Sends an edit that changes something, and shows what came of it. */
function useEdit(vm: Vm) {
  const t = useT();
  const toast = useToast();
  const me = useAccount();
  const ref = { name: vm.name, owner: vm.owner === me.name ? undefined : vm.owner };
  const edit = async (fields: Record<string, unknown>) => {
    const body = compact(fields);
    if (Object.keys(body).length === 0) return toast(t("settings.nothing"));
    putVm(await calls.editVm(ref, body));
    toast(t("settings.saved"));
  };
  return { ref, edit };
}

function SizeSection({ vm }: { vm: Vm }) {
  const t = useT();
  const { edit } = useEdit(vm);
  const send = async (data: FormData) => {
    const size = readSizeFields(data);
    await edit({
      cpu: size["cpu"] === vm.cpu ? undefined : size["cpu"],
      memory: changed(data, "memory", vm.memory),
      disk: changed(data, "disk", vm.disk),
      ...readMoreChanges(data, vm),
    });
  };
  const fixed = vm.offer !== undefined;
  return (
    <Section title={t("settings.size")} lead={fixed ? t("settings.offered") : t("settings.sizeLead")}>
      <Form submit={t("save")} send={send}>
        <SizeFields size={vm} />
        <MoreFields vm={vm} />
      </Form>
    </Section>
  );
}

function AccessSection({ vm }: { vm: Vm }) {
  const t = useT();
  const { edit } = useEdit(vm);
  const send = async (data: FormData, form: HTMLFormElement) => {
    const keys = lines(data.get("sshPublicKeys"));
    const login = String(data.get("sshLogin") ?? vm.sshLogin);
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
          name="sshLogin"
          label={t("settings.login")}
          defaultValue={vm.sshLogin}
          options={(["KeyOrPassword", "KeyAndPassword"] as const).map((value) => ({
            value,
            text: t(`settings.${value}`),
          }))}
        />
      </Form>
    </Section>
  );
}

function DeleteSection({ vm }: { vm: Vm }) {
  const t = useT();
  const navigate = useNavigate();
  const { ref } = useEdit(vm);
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
          await calls.deleteVm(ref);
          putVm({ ...vm, deleting: true });
          void navigate(ref.owner === undefined ? "/" : "/admin/vms");
        }}
      />
    </Section>
  );
}

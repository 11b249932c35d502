import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useInvites } from "../../api/queries";
import type { Invite } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Button } from "../../components/Button";
import { CopyText } from "../../components/CopyText";
import { Dialog } from "../../components/Dialog";
import { Field, NameField } from "../../components/Field";
import { compact, Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Table, type Column } from "../../components/Table";
import { useI18n, useT } from "../../i18n";
import { fromLocalInput, relative } from "../../lib/time";

const refetch = () => queries.invalidateQueries({ queryKey: keys.invites });

/** Who is invited to sign up. */
export default function InvitesPage() {
  const { t, tag } = useI18n();
  const invites = useInvites();
  const [creating, setCreating] = useState(false);
  const columns: readonly Column<Invite>[] = [
    { title: t("vm.name"), head: true, cell: (invite) => invite.name },
    { title: t("invites.used"), cell: (invite) => invite.usedBy ?? t("invites.unused") },
    { title: t("offer.until"), cell: (invite) => (invite.expiresAt ? relative(invite.expiresAt, tag) : "–") },
    {
      title: t("actions"),
      actions: true,
      cell: (invite) => (
        <ActionButton
          small
          aria-label={t("invites.deleteOf", { name: invite.name })}
          act={() => calls.deleteInvite(invite.name).then(refetch)}
          done={t("invites.deleted", { name: invite.name })}
        >
          {t("invites.delete")}
        </ActionButton>
      ),
    },
  ];
  return (
    <Page
      title={t("nav.invites")}
      lead={t("invites.lead")}
      actions={
        invites.isSuccess ? (
          <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
            {t("invites.new")}
          </Button>
        ) : undefined
      }
    >
      <section className="card">
        <Loaded query={invites}>
          {(invites) => (
            <Table
              label={t("nav.invites")}
              columns={columns}
              rows={invites}
              rowKey={(invite) => invite.name}
              empty={t("invites.empty")}
            />
          )}
        </Loaded>
      </section>
      {creating && <NewInvite onClose={() => setCreating(false)} />}
    </Page>
  );
}

function NewInvite({ onClose }: { onClose: () => void }) {
  const t = useT();
  const [code, setCode] = useState<string | null>(null);
  const send = async (data: FormData) => {
    const invite = await calls.createInvite(
      compact({
        name: given(data, "name"),
        expiresAt: fromLocalInput(String(data.get("expiresAt") ?? "")) ?? undefined,
      }),
    );
    await refetch();
    setCode(invite.code ?? invite.name);
  };
  const link = code === null ? "" : `${window.location.origin}/sign-up?invite=${encodeURIComponent(code)}`;
  return (
    <Dialog title={t("invites.new")} isOpen onClose={onClose}>
      {code === null ? (
        <Form submit={t("invites.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
          <NameField name="name" label={t("invites.name")} hint={t("invites.nameHint")} autoFocus />
          <Field name="expiresAt" type="datetime-local" label={t("invites.expiresAt")} hint={t("invites.expiresAtHint")} />
        </Form>
      ) : (
        <div className="form">
          <Notice tone="good">{t("invites.send")}</Notice>
          <CopyText text={link} label={t("invites.link")} />
          <div className="form-actions">
            <Button look="primary" onPress={onClose}>
              {t("done")}
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

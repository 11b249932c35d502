import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useInvites } from "../../api/queries";
import type { Invite } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Loaded } from "../../components/Loaded";
import type { Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Table, type Column } from "../../components/Table";
import { When } from "../../components/When";
import { useT, type Key } from "../../i18n";
import { NewInvite } from "./NewInvite";

const TONES: Record<Invite["state"], Tone> = {
  Open: "good",
  Claimed: "busy",
  Used: "off",
  Expired: "warn",
  Void: "warn",
};

const refetch = () => queries.invalidateQueries({ queryKey: keys.invites });

/** What people know an invite by. */
const calledOf = (invite: Invite) => invite.note ?? invite.email ?? invite.name.slice(0, 10);

/** What is taken from whom: only what could still be used is withdrawn. */
const wayOut = ({ state }: Invite) => (state === "Open" || state === "Claimed" ? "withdraw" : "remove");

/** What comes of it when an invite is gone. */
const CONSEQUENCES: Record<Invite["state"], Key> = {
  Open: "invites.withdrawConsequence",
  Claimed: "invites.withdrawConsequence",
  Used: "invites.withdrawUsed",
  Expired: "invites.removeConsequence",
  Void: "invites.removeConsequence",
};

/** Who is invited to sign up. */
export default function InvitesPage() {
  const t = useT();
  const invites = useInvites();
  const [creating, setCreating] = useState(false);
  const [leaving, setLeaving] = useState<Invite | null>(null);
  const columns: readonly Column<Invite>[] = [
    { title: t("invites.for"), head: true, cell: calledOf },
    {
      title: t("vm.state"),
      cell: ({ state }) => <Badge tone={TONES[state]}>{t(`invites.state.${state}`)}</Badge>,
    },
    { title: t("invites.email"), cell: ({ email }) => email ?? t("invites.anyAddress") },
    { title: t("user.level"), cell: ({ accessLevel }) => t(`level.${accessLevel}`) },
    {
      title: t("invites.usedBy"),
      cell: ({ usedBy, claimedFor, usedAt }) => (
        <>
          {usedBy ?? claimedFor ?? "–"}{" "}
          {usedAt !== undefined && (
            <small>
              <When time={usedAt} is="past" />
            </small>
          )}
        </>
      ),
    },
    { title: t("invites.createdBy"), cell: ({ createdBy }) => createdBy },
    // Of one that was used it says nothing any more.
    { title: t("offer.until"), cell: (it) => (it.usedAt === undefined ? <When time={it.expiresAt} /> : "–") },
    {
      title: t("actions"),
      actions: true,
      cell: (invite) => (
        <Button
          small
          aria-label={t(`invites.${wayOut(invite)}Of`, { name: calledOf(invite) })}
          onPress={() => setLeaving(invite)}
        >
          {t(`invites.${wayOut(invite)}`)}
        </Button>
      ),
    },
  ];
  return (
    <Page
      title={t("nav.invites")}
      lead={t("invites.lead")}
      actions={
        <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
          {t("invites.new")}
        </Button>
      }
    >
      <section className="card">
        <Loaded query={invites}>
          {(invites) => (
            <Table
              label={t("nav.invites")}
              columns={columns}
              rows={[...invites].sort((a, b) => ((a.createdAt ?? "") < (b.createdAt ?? "") ? 1 : -1))}
              rowKey={(invite) => invite.name}
              empty={t("invites.empty")}
            />
          )}
        </Loaded>
      </section>
      {creating && <NewInvite onClose={() => setCreating(false)} onCreated={refetch} />}
      {leaving && <Withdraw invite={leaving} onClose={() => setLeaving(null)} />}
    </Page>
  );
}

/** Asks before an invite is gone. Its name is nothing that one could type. */
function Withdraw({ invite, onClose }: { invite: Invite; onClose: () => void }) {
  const t = useT();
  const name = calledOf(invite);
  return (
    <Confirm
      title={t(`invites.${wayOut(invite)}Of`, { name })}
      submit={t(`invites.${wayOut(invite)}`)}
      consequence={t(CONSEQUENCES[invite.state])}
      done={t("invites.withdrawn", { name })}
      isOpen
      onClose={onClose}
      send={() => calls.deleteInvite(invite.name).then(refetch)}
    />
  );
}

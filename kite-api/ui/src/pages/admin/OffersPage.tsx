import Plus from "lucide-react/icons/plus";
import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useAllOffers, useImages } from "../../api/queries";
import type { Offer } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Dialog } from "../../components/Dialog";
import { EndField, LABEL, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice, type Tone } from "../../components/Notice";
import { Page } from "../../components/Page";
import { Select } from "../../components/Select";
import { Table, type Column } from "../../components/Table";
import { useToast } from "../../components/Toasts";
import { Unreadable } from "../../components/Unreadable";
import { When } from "../../components/When";
import { useT } from "../../i18n";
import { sizeText } from "../../lib/sizes";
import { fromLocalInput } from "../../lib/time";
import { readSizeFields, SizeFields } from "../vms/SizeFields";

const TONES: Record<NonNullable<Offer["phase"]>, Tone> = {
  Available: "good",
  Claimed: "off",
  Expired: "warn",
  Deleting: "busy",
};

const refetch = () => queries.invalidateQueries({ queryKey: keys.allOffers });

/** VMs to give away. */
export default function AdminOffersPage() {
  const t = useT();
  const offers = useAllOffers();
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<string | null>(null);
  const columns: readonly Column<Offer>[] = [
    { title: t("vm.name"), head: true, cell: (offer) => offer.name },
    {
      title: t("vm.state"),
      cell: ({ phase = "Available", unreadable }) => (
        <>
          <Badge tone={unreadable === undefined ? TONES[phase] : "bad"}>{t(`offer.phase.${phase}`)}</Badge>
          <Unreadable why={unreadable} />
        </>
      ),
    },
    { title: t("vm.image"), cell: (offer) => offer.image },
    {
      title: t("size.label"),
      cell: (offer) => t("size.text", { cpu: offer.cpu, memory: sizeText(offer.memory), disk: sizeText(offer.disk) }),
    },
    { title: t("offer.for"), cell: (offer) => offer.user ?? t("offer.anybody") },
    {
      title: t("offer.claimedBy"),
      cell: ({ claimedBy }) => (claimedBy ? `${claimedBy.namespace.replace(/^kite-user-/, "")}/${claimedBy.name}` : "–"),
    },
    { title: t("offer.until"), cell: (offer) => (offer.expiresAt ? <When time={offer.expiresAt} /> : "–") },
    {
      title: t("actions"),
      actions: true,
      cell: (offer) => (
        <Button small aria-label={t("offer.deleteOf", { name: offer.name })} onPress={() => setDeleting(offer.name)}>
          {t("delete")}
        </Button>
      ),
    },
  ];
  return (
    <Page
      title={t("nav.adminOffers")}
      lead={t("adminOffers.lead")}
      actions={
        <Button look="primary" icon={<Plus aria-hidden />} onPress={() => setCreating(true)}>
          {t("adminOffers.new")}
        </Button>
      }
    >
      <section className="card">
        <Loaded query={offers}>
          {(offers) => (
            <Table
              label={t("nav.adminOffers")}
              columns={columns}
              rows={offers}
              rowKey={(offer) => offer.name}
              empty={t("adminOffers.empty")}
            />
          )}
        </Loaded>
      </section>
      {creating && <NewOffer onClose={() => setCreating(false)} />}
      <Confirm
        name={deleting ?? ""}
        title={t("delete.ask", { name: deleting ?? "" })}
        submit={t("delete")}
        consequence={t("adminOffers.deleteConsequence")}
        done={t("delete.done", { name: deleting ?? "" })}
        isOpen={deleting !== null}
        onClose={() => setDeleting(null)}
        send={async () => {
          await calls.deleteOffer(deleting ?? "");
          await refetch();
        }}
      />
    </Page>
  );
}

function NewOffer({ onClose }: { onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const images = useImages().data;
  const send = async (data: FormData) => {
    const offer = await calls.createOffer({
      name: given(data, "name") ?? "",
      image: given(data, "image"),
      ...readSizeFields(data),
      user: given(data, "user"),
      lifetime: given(data, "lifetime"),
      expiresAt: fromLocalInput(String(data.get("expiresAt") ?? "")) ?? undefined,
    });
    await refetch();
    toast(t("adminOffers.created", { name: offer.name }));
    onClose();
  };
  return (
    <Dialog title={t("adminOffers.new")} isOpen onClose={onClose}>
      <Form submit={t("adminOffers.create")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        <NameField name="name" label={t("vm.name")} hint={t("vm.nameHint")} pattern={LABEL} autoFocus isRequired />
        {images?.length === 0 && (
          <Notice tone="warn">
            {t("images.empty")}. {t("images.emptyHint")}
          </Notice>
        )}
        {images?.[0] && (
          <Select
            name="image"
            label={t("vm.image")}
            defaultValue={images[0].name}
            options={images.map((image) => ({ value: image.name, text: image.displayName }))}
          />
        )}
        <SizeFields />
        <NameField name="user" label={t("offer.forField")} hint={t("offer.forHint")} />
        <NameField name="lifetime" label={t("offer.lifetime")} hint={t("offer.lifetimeHint")} />
        <EndField name="expiresAt" label={t("offer.expiresAt")} hint={t("offer.expiresAtHint")} />
      </Form>
    </Dialog>
  );
}

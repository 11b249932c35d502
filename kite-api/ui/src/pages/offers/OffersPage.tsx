import Gift from "lucide-react/icons/gift";
import { useState } from "react";
import { useNavigate } from "react-router";
import * as calls from "../../api/calls";
import { keys, putVm, queries, useAccount, useOffers } from "../../api/queries";
import type { Offer, Sent } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { Empty } from "../../components/Empty";
import { LABEL, NameField } from "../../components/Field";
import { Form, given } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Page } from "../../components/Page";
import { useToast } from "../../components/Toasts";
import { useI18n, useT } from "../../i18n";
import { mayCreate } from "../../lib/may";
import { duration } from "../../lib/span";
import { dateTime } from "../../lib/time";
import { AccessFields, readPassword } from "../vm/AccessFields";
import { MoreFields, readMore } from "../vm/MoreFields";
import { VmFacts } from "../vm/VmFacts";

/** VMs that one can have. */
export default function OffersPage() {
  const { t, tag } = useI18n();
  const me = useAccount();
  const offers = useOffers();
  const [claiming, setClaiming] = useState<Offer | null>(null);
  return (
    <Page title={t("offers.title")} lead={t("offers.lead")}>
      <Loaded query={offers}>
        {(offers) =>
          offers.length === 0 ? (
            <Empty title={t("offers.empty")}>{t("offers.emptyHint")}</Empty>
          ) : (
            <>
              {!mayCreate(me) && <Notice tone="off">{t("vms.emptyReadOnly")}</Notice>}
              <ul className="cards" aria-label={t("offers.title")}>
                {offers.map((offer) => (
                  <li className="card vm-card" key={offer.name}>
                    <header>
                      <h2>{offer.name}</h2>
                    </header>
                    <VmFacts vm={offer} />
                    <p className="quiet-text">
                      {offer.lifetime !== undefined && `${t("offers.lifetime", { lifetime: duration(offer.lifetime, tag) })} `}
                      {offer.expiresAt !== undefined && t("offers.until", { when: dateTime(offer.expiresAt, tag) })}
                    </p>
                    <footer>
                      <Button
                        look="primary"
                        icon={<Gift aria-hidden />}
                        aria-label={t("offers.claimOf", { name: offer.name })}
                        isDisabled={!mayCreate(me)}
                        onPress={() => setClaiming(offer)}
                      >
                        {t("offers.claim")}
                      </Button>
                    </footer>
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </Loaded>
      {claiming && <ClaimDialog offer={claiming} onClose={() => setClaiming(null)} />}
    </Page>
  );
}

function ClaimDialog({ offer, onClose }: { offer: Offer; onClose: () => void }) {
  const t = useT();
  const toast = useToast();
  const navigate = useNavigate();
  const send = async (data: FormData) => {
    const body: Sent<"Claim"> = {
      name: given(data, "name") ?? "",
      sshPassword: readPassword(data),
      ...readMore(data),
    };
    const vm = await calls.claimOffer(offer.name, body);
    putVm(vm);
    void queries.invalidateQueries({ queryKey: keys.offers });
    toast(t("offers.claimed", { name: vm.name }));
    onClose();
    void navigate(`/vms/${encodeURIComponent(vm.name)}`);
  };
  return (
    <Dialog title={t("offers.claimTitle", { name: offer.name })} isOpen onClose={onClose}>
      <Form
        submit={t("offers.claim")}
        extra={<Button onPress={onClose}>{t("cancel")}</Button>}
        send={send}
      >
        <VmFacts vm={offer} />
        <NameField name="name" label={t("vm.name")} hint={t("vm.nameHint")} pattern={LABEL} maxLength={52} autoFocus isRequired />
        <AccessFields />
        <MoreFields create withoutEnd={offer.lifetime !== undefined} />
      </Form>
    </Dialog>
  );
}

import * as calls from "../../api/calls";
import { keys, queries, usePlatform } from "../../api/queries";
import type { Platform, SecondFactorOf, Sent, SignUp } from "../../api/types";
import { Field, lines, NameField } from "../../components/Field";
import { changed, chosen, Form, given, isEmpty } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Outdated } from "../../components/Outdated";
import { Page, Section } from "../../components/Page";
import { Select } from "../../components/Select";
import { useToast } from "../../components/Toasts";
import { useT } from "../../i18n";
import { useBasis } from "../../lib/basis";
import { CertificateSection } from "./CertificateSection";
import { EveryoneSection } from "./EveryoneSection";
import { MissingReferences } from "./MissingReferences";
import { ProvidersSection } from "./ProvidersSection";

const FACTORS: readonly SecondFactorOf[] = ["Nobody", "Administrators", "Everybody"];
const SIGN_UPS: readonly SignUp[] = ["Open", "Invite", "Closed"];

/** Settings of the whole platform. */
export default function PlatformPage() {
  const t = useT();
  const platform = usePlatform();
  return (
    <Page title={t("nav.platform")} lead={t("platform.lead")}>
      <Loaded query={platform}>
        {(platform) => (
          <>
            <MissingReferences platform={platform} />
            <PlatformForm platform={platform} />
            <ProvidersSection platform={platform} />
          </>
        )}
      </Loaded>
      <CertificateSection />
      <EveryoneSection />
    </Page>
  );
}

/** What of the platform the form may have. */
const editable = ({
  status: _status,
  etag: _etag,
  exposure: _exposure,
  signInProviders: _providers,
  ...spec
}: Platform) => spec;

function PlatformForm({ platform: current }: { platform: Platform }) {
  const t = useT();
  const toast = useToast();
  const basis = useBasis(current, editable);
  const { basis: platform } = basis;
  const gateway = platform.gateway ?? {};
  const blocked = platform.blockedNetworks ?? [];
  const send = async (data: FormData) => {
    const networks = lines(data.get("blockedNetworks"));
    const signUp = chosen(data, "signUp", SIGN_UPS);
    const factors = chosen(data, "requireSecondFactor", FACTORS);
    const signUps = given(data, "signUpsPerDay");
    const port = given(data, "publicPort");
    const gatewayEdit: Sent<"PlatformEdit">["gateway"] = {
      publicHost: changed(data, "publicHost", gateway.publicHost),
      publicPort: port === String(gateway.publicPort ?? "") ? undefined : Number(port),
    };
    const body: Sent<"PlatformEdit"> = {
      // Once it is set, administrators of the cluster change it.
      baseDomain: platform.baseDomain ? undefined : changed(data, "baseDomain", platform.baseDomain),
      signUp: signUp === platform.signUp ? undefined : signUp,
      signUpsPerDay:
        signUps === (platform.signUpsPerDay === undefined ? undefined : String(platform.signUpsPerDay))
          ? undefined
          : signUps === undefined
            ? null
            : Number(signUps),
      requireSecondFactor: factors === (platform.requireSecondFactor ?? "Nobody") ? undefined : factors,
      blockedNetworks: networks.join() === blocked.join() ? undefined : networks,
      gateway: isEmpty(gatewayEdit) ? undefined : gatewayEdit,
    };
    if (isEmpty(body)) return toast(t("settings.nothing"));
    const answer = await calls.editPlatform(body, platform.etag);
    basis.saved(answer);
    queries.setQueryData(keys.platform, answer);
    await Promise.all([keys.platform, keys.config].map((queryKey) => queries.invalidateQueries({ queryKey })));
    toast(t("settings.saved"));
  };
  return (
    <Section title={t("platform.settings")}>
      <Outdated of={basis} />
      <Form key={basis.round} submit={t("save")} send={send}>
        <Select
          name="signUp"
          label={t("platform.signUp")}
          defaultValue={platform.signUp ?? "Closed"}
          options={SIGN_UPS.map((value) => ({ value, text: t(`platform.signUp.${value}`) }))}
        />
        <NameField
          name="signUpsPerDay"
          type="number"
          label={t("platform.signUpsPerDay")}
          hint={t("platform.signUpsPerDayHint")}
          defaultValue={String(platform.signUpsPerDay ?? "")}
        />
        <Select
          name="requireSecondFactor"
          label={t("platform.factors")}
          hint={t("platform.factorsHint")}
          defaultValue={platform.requireSecondFactor ?? "Nobody"}
          options={FACTORS.map((value) => ({ value, text: t(`platform.factors.${value}`) }))}
        />
        {platform.baseDomain ? (
          <p className="hint">{t("platform.baseDomainSet", { domain: platform.baseDomain })}</p>
        ) : (
          <NameField
            name="baseDomain"
            label={t("platform.baseDomain")}
            hint={t("platform.baseDomainHint")}
            defaultValue=""
          />
        )}
        <div className="field-row">
          <NameField
            name="publicHost"
            label={t("platform.publicHost")}
            hint={t("platform.publicHostHint")}
            defaultValue={gateway.publicHost ?? ""}
          />
          <NameField
            name="publicPort"
            type="number"
            label={t("platform.publicPort")}
            defaultValue={String(gateway.publicPort ?? "")}
          />
        </div>
        <Field
          name="blockedNetworks"
          label={t("platform.blockedNetworks")}
          hint={t("platform.blockedNetworksHint")}
          rows={3}
          placeholder="198.51.100.0/24"
          defaultValue={blocked.join("\n")}
        />
      </Form>
    </Section>
  );
}

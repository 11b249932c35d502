import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries, useCertificate } from "../../api/queries";
import type { Certificate } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Dialog } from "../../components/Dialog";
import { NameField } from "../../components/Field";
import { Form } from "../../components/Form";
import { Loaded } from "../../components/Loaded";
import { Notice } from "../../components/Notice";
import { Section } from "../../components/Page";
import { useToast } from "../../components/Toasts";
import { useI18n, useT } from "../../i18n";
import { dateTime } from "../../lib/time";

/** From how many days before its end on a certificate is warned of. */
const WARN_DAYS = 21;

const refetch = () =>
  Promise.all([keys.certificate, keys.platform].map((queryKey) => queries.invalidateQueries({ queryKey })));

/** The certificate of this very page. */
export function CertificateSection() {
  const t = useT();
  const certificate = useCertificate();
  const [open, setOpen] = useState<"put" | "remove" | null>(null);
  const close = () => setOpen(null);
  const source = certificate.data?.source;
  const actions = source !== undefined && source !== "Gateway" && (
    <>
      <Button small onPress={() => setOpen("put")}>
        {t("certificate.put")}
      </Button>
      {source === "Uploaded" && (
        <Button small onPress={() => setOpen("remove")}>
          {t("certificate.remove")}
        </Button>
      )}
    </>
  );
  return (
    <Section title={t("certificate.title")} lead={t("certificate.lead")} actions={actions}>
      <Loaded query={certificate}>{(certificate) => <Facts certificate={certificate} />}</Loaded>
      {open === "put" && certificate.data && <PutCertificate instead={certificate.data} onClose={close} />}
      <Confirm
        title={t("certificate.remove")}
        submit={t("certificate.remove")}
        consequence={t("certificate.removeConsequence")}
        done={t("certificate.removed")}
        isOpen={open === "remove"}
        onClose={close}
        send={() => calls.deleteCertificate().then(refetch)}
      />
    </Section>
  );
}

function Facts({ certificate }: { certificate: Certificate }) {
  const { t, tag } = useI18n();
  const { source, facts, clusterIssuer = "", secretName = "" } = certificate;
  return (
    <>
      <p>{t(`certificate.source.${source}`, { clusterIssuer, secretName })}</p>
      {facts === undefined && (source === "ClusterIssuer" || source === "Uploaded") && (
        <Notice tone="warn">{t("certificate.unreadable", { secretName })}</Notice>
      )}
      {facts !== undefined && (
        <>
          <Remark facts={facts} />
          <dl className="pairs">
            <div>
              <dt>{t("certificate.names")}</dt>
              <dd>{facts.names.join(", ")}</dd>
            </div>
            <div>
              <dt>{t("certificate.issuer")}</dt>
              <dd>{facts.issuer}</dd>
            </div>
            <div>
              <dt>{t("certificate.from")}</dt>
              <dd>{dateTime(facts.notBefore, tag)}</dd>
            </div>
            <div>
              <dt>{t("certificate.until")}</dt>
              <dd>{dateTime(facts.notAfter, tag)}</dd>
            </div>
            <div>
              <dt>{t("certificate.wildcard")}</dt>
              <dd>{t(facts.coversWildcard ? "certificate.yes" : "certificate.no")}</dd>
            </div>
          </dl>
        </>
      )}
    </>
  );
}

function Remark({ facts }: { facts: NonNullable<Certificate["facts"]> }) {
  const t = useT();
  const { daysLeft } = facts;
  if (daysLeft < 0) return <Notice tone="bad">{t("certificate.expired")}</Notice>;
  if (!facts.coversBaseDomain) return <Notice tone="bad">{t("certificate.otherNames")}</Notice>;
  if (daysLeft < WARN_DAYS) return <Notice tone="warn">{t("certificate.endsSoon", { count: daysLeft })}</Notice>;
  return <Notice tone="good">{t("certificate.good", { count: daysLeft })}</Notice>;
}

/** Takes a certificate of the administrator's own `instead` of the one there is. */
function PutCertificate({ instead, onClose }: { instead: Certificate; onClose: () => void }) {
  const t = useT();
  const { source, clusterIssuer = "", secretName = "" } = instead;
  const toast = useToast();
  const send = async (data: FormData) => {
    await calls.putCertificate({
      certificate: String(data.get("certificate") ?? ""),
      privateKey: String(data.get("privateKey") ?? ""),
    });
    await refetch();
    toast(t("certificate.done"));
    onClose();
  };
  return (
    <Dialog title={t("certificate.put")} isOpen onClose={onClose}>
      <Form submit={t("certificate.put")} extra={<Button onPress={onClose}>{t("cancel")}</Button>} send={send}>
        {(source === "ClusterIssuer" || source === "Secret") && (
          <Notice tone="warn">{t(`certificate.replaces.${source}`, { clusterIssuer, secretName })}</Notice>
        )}
        <NameField
          name="certificate"
          label={t("certificate.chain")}
          hint={t("certificate.chainHint")}
          placeholder="-----BEGIN CERTIFICATE-----"
          rows={6}
          autoFocus
          isRequired
        />
        <NameField
          name="privateKey"
          label={t("certificate.key")}
          hint={t("certificate.keyHint")}
          placeholder="-----BEGIN PRIVATE KEY-----"
          rows={4}
          isRequired
        />
      </Form>
    </Dialog>
  );
}

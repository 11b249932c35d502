import { useConfig } from "../../api/queries";
import { CopyText } from "../../components/CopyText";
import { useT } from "../../i18n";

/** What the first `ssh` asks about: the gateway's host keys, to be compared or put in beforehand. */
export function HostKeys() {
  const t = useT();
  const gateway = useConfig().data?.gateway;
  // An API that is about to be replaced may tell none.
  const { host, port = 22, hostKeys = [] } = gateway ?? {};
  if (hostKeys.length === 0) return null;
  const place = port === 22 ? host : `[${host}]:${port}`;
  return (
    <details>
      <summary>{t("hostKeys.title")}</summary>
      <p className="quiet-text">{t("hostKeys.lead")}</p>
      {hostKeys.map(({ fingerprint }) => (
        <CopyText key={fingerprint} text={fingerprint} label={t("hostKeys.fingerprint")} />
      ))}
      {host !== undefined && (
        <>
          <p className="quiet-text">{t("hostKeys.known")}</p>
          <CopyText
            text={hostKeys.map((key) => `${place} ${key.publicKey}`).join("\n")}
            label={t("hostKeys.line")}
          />
        </>
      )}
    </details>
  );
}

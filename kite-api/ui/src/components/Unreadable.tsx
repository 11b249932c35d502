import { useT } from "../i18n";

/** That something cannot be read as it is stored, and below which field it is and why, as
 * the controller says it, which is English. */
export function Unreadable({ why }: { why: string | undefined }) {
  const t = useT();
  if (why === undefined) return null;
  return (
    <div className="why">
      <p className="remedy">{t("unreadable")}</p>
      <p lang="en">{why}</p>
    </div>
  );
}

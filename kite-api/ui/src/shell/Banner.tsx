import CloudOff from "lucide-react/icons/cloud-off";
import { useIsConnectionLost } from "../api/connection";
import { useT } from "../i18n";

/** Says that what is shown may be old, for as long as the API does not answer. */
export function Banner() {
  const t = useT();
  const lost = useIsConnectionLost();
  return (
    <div role="status">
      {lost && (
        <p className="banner">
          <CloudOff aria-hidden /> {t("connection.lost")}
        </p>
      )}
    </div>
  );
}

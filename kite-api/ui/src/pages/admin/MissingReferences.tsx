import type { Platform } from "../../api/types";
import { Notice } from "../../components/Notice";
import { useT } from "../../i18n";

/**
 * Which settings name what is not there, or what nobody may look at, as the controller says it,
 * which is English.
 */
export function MissingReferences({ platform }: { platform: Platform }) {
  const t = useT();
  // An older controller tells of none.
  const found = platform.status.conditions?.find(({ type }) => type === "ResolvedRefs");
  if (found?.status !== "False" && found?.status !== "Unknown") return null;
  return (
    <Notice tone="warn">
      <p>{t(found.status === "False" ? "platform.missing" : "platform.unseen")}</p>
      <ul lang="en">
        {found.message.split("; ").map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </Notice>
  );
}

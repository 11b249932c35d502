import { OfflineError } from "../api/problem";
import { useT } from "../i18n";

/** What went wrong, in words. */
export function useErrorText(): (error: unknown) => string {
  const t = useT();
  return (error) => {
    if (error instanceof OfflineError) return t("error.offline");
    return error instanceof Error && error.message ? error.message : t("error.unknown");
  };
}

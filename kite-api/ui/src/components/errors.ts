import { isProblemOf, OfflineError, ProblemError } from "../api/problem";
import { useI18n } from "../i18n";
import { problemText, refusalsNow, type Refusal } from "../lib/refusals";
import { withLocalTimes } from "../lib/time";

/** What went wrong, in words. */
export function useErrorText(): (error: unknown) => string {
  const { t, tag } = useI18n();
  const refusalText = useRefusalText();
  return (error) => {
    if (error instanceof OfflineError) return t("error.offline");
    // Whoever was asked for it knows how; what they did is still there.
    if (isProblemOf(error, "proof-required")) return t("proof.none");
    if (error instanceof ProblemError) return refusalText(error);
    return error instanceof Error && error.message ? withLocalTimes(error.message, tag) : t("error.unknown");
  };
}

/** What the API says when it refuses, in words. */
export function useRefusalText(): (refusal: Refusal) => string {
  const { tag } = useI18n();
  return (refusal) => withLocalTimes(problemText(refusal, refusalsNow()), tag);
}

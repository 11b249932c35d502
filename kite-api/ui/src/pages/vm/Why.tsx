import type { Condition, Vm } from "../../api/types";
import { useI18n } from "../../i18n";
import { explain, isTold } from "../../lib/reasons";
import { useNow } from "../../lib/now";
import { isWrong } from "../../lib/vm";
import type { Tone } from "../../components/Notice";

interface Props {
  vm: Vm;
  condition: Condition;
  tone: Tone;
  /** It is told in full elsewhere, too. */
  isRepeated?: boolean;
}

/** What a condition says, and folded away how the controller says it, which is English:
 * not where all is well, and at once where the page's words leave out what one has to
 * know. */
export function Why({ vm, condition, tone, isRepeated = false }: Props) {
  const { t, tag } = useI18n();
  const explained = explain(vm, condition, t, tag, useNow());
  const { text, original, isShort } = explained;
  const hasDetails = !isRepeated && original !== undefined && (tone !== "good" || isShort);
  return (
    <>
      <p>{text}</p>
      {hasDetails && (
        <details className="why" open={isTold(condition, explained, isWrong(tone))}>
          <summary>{t("reason.details")}</summary>
          <p lang="en">{original}</p>
        </details>
      )}
    </>
  );
}

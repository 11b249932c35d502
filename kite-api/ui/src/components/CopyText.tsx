import Check from "lucide-react/icons/check";
import Copy from "lucide-react/icons/copy";
import { Fragment, useState } from "react";
import { useT } from "../i18n";
import { wordsOf } from "../lib/words";
import { Button } from "./Button";
import { useToast } from "./Toasts";

interface Props {
  text: string;
  /** What is copied, for those who only hear the button. */
  label: string;
}

/** Text to take elsewhere. */
export function CopyText({ text, label }: Props) {
  const t = useT();
  const toast = useToast();
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2000);
      toast(t("copy.done"));
    } catch {
      // Without HTTPS browsers have no clipboard.
      toast(t("copy.failed"), true);
    }
  };
  return (
    <div className="copy">
      <code>
        {wordsOf(text).map((pieces, at) => (
          <Fragment key={at}>
            {at > 0 && " "}
            <span>
              {pieces.map((piece, at) => (
                <span key={at}>{piece}</span>
              ))}
            </span>
          </Fragment>
        ))}
      </code>
      <Button
        small
        look="quiet"
        icon={copied ? <Check aria-hidden /> : <Copy aria-hidden />}
        aria-label={t("copy.label", { what: label })}
        onPress={() => void copy()}
      />
    </div>
  );
}

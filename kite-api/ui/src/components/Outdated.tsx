import { useT } from "../i18n";
import type { Basis } from "../lib/basis";
import { Button } from "./Button";
import { Notice } from "./Notice";

/** Says that somebody else has edited what a form shows, and offers to show that. */
export function Outdated<T>({ of }: { of: Basis<T> }) {
  const t = useT();
  if (!of.isOutdated) return null;
  return (
    <Notice tone="warn">
      {t("settings.outdated")}{" "}
      <Button small onPress={of.renew}>
        {t("settings.renew")}
      </Button>
    </Notice>
  );
}

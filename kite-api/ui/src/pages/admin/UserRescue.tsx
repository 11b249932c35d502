import { useState } from "react";
import * as calls from "../../api/calls";
import { keys, queries } from "../../api/queries";
import type { User } from "../../api/types";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { useT } from "../../i18n";

/** For whoever has lost what they sign in with, or to whom somebody else has it. The API
 * does not tell others whether an account has any of it. */
export function UserRescue({ user: { name } }: { user: User }) {
  const t = useT();
  const [asked, setAsked] = useState<"factor" | "tokens" | null>(null);
  // The form above is based on what the account is now.
  const edit = async (body: { removeSecondFactor: true } | { endTokens: true }) => {
    await calls.editUser(name, body);
    await queries.invalidateQueries({ queryKey: keys.users });
  };
  return (
    <section>
      <h3>{t("user.rescue")}</h3>
      <p className="hint">{t("user.rescueLead")}</p>
      <div className="form-actions">
        <Button small onPress={() => setAsked("factor")}>
          {t("user.removeFactor")}
        </Button>
        <Button small onPress={() => setAsked("tokens")}>
          {t("user.endTokens")}
        </Button>
      </div>
      <Confirm
        title={t("user.removeFactorAsk", { name })}
        submit={t("user.removeFactorSubmit")}
        consequence={t("user.removeFactorConsequence", { name })}
        done={t("user.removeFactorDone", { name })}
        isOpen={asked === "factor"}
        onClose={() => setAsked(null)}
        send={() => edit({ removeSecondFactor: true })}
      />
      <Confirm
        name={name}
        title={t("user.endTokensAsk", { name })}
        submit={t("user.endTokensSubmit")}
        consequence={t("user.endTokensConsequence", { name })}
        done={t("user.endTokensDone", { name })}
        isOpen={asked === "tokens"}
        onClose={() => setAsked(null)}
        send={() => edit({ endTokens: true })}
      />
    </section>
  );
}

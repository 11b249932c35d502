import { useEffect } from "react";
import { keys, queries, useAccount, useTotp } from "../api/queries";
import { Button } from "../components/Button";
import { Logo } from "../components/Logo";
import { Notice } from "../components/Notice";
import { useT } from "../i18n";
import { TotpSection } from "../pages/account/TotpSection";
import { Preferences } from "./Preferences";
import { useSignOut } from "./sign-out";

/** All there is for an account that needs a second factor and has none. It stays until
 * whoever sets one up goes on: the recovery codes are shown once. */
export default function FactorSetup({ onDone }: { onDone: () => void }) {
  const t = useT();
  const { username } = useAccount();
  const isSetUp = useTotp().data?.enabled === true;
  const signOut = useSignOut();
  useEffect(() => {
    document.title = `${t("demand.title")} · Kite`;
  }, [t]);
  const goOn = async () => {
    await queries.refetchQueries({ queryKey: keys.me });
    onDone();
  };
  return (
    <main className="entrance">
      <section className="card">
        <p className="brand">
          <Logo size={44} /> Kite
        </p>
        <h1>{t("demand.title")}</h1>
        <Notice tone={isSetUp ? "good" : "warn"} isStanding>
          {isSetUp ? t("demand.done") : t("demand.lead", { name: username })}
        </Notice>
        <TotpSection />
        <div className="form-actions">
          {isSetUp && (
            <Button look="primary" onPress={() => void goOn()}>
              {t("demand.goOn")}
            </Button>
          )}
          <Button isPending={signOut.isPending} onPress={() => signOut.mutate()}>
            {t("signOut")}
          </Button>
        </div>
      </section>
      <Preferences />
    </main>
  );
}

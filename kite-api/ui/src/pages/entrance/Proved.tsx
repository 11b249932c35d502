import { useEffect } from "react";
import { Link } from "react-router";
import { Notice } from "../../components/Notice";
import { Logo } from "../../components/Logo";
import { useT } from "../../i18n";

/** Where a sign-in at a provider ends that only was to show who one is. */
export default function Proved() {
  const t = useT();
  useEffect(() => {
    document.title = `${t("proof.doneTitle")} · Kite`;
  }, [t]);
  return (
    <main className="entrance">
      <section className="card">
        <p className="brand">
          <Logo size={44} /> Kite
        </p>
        <h1>{t("proof.doneTitle")}</h1>
        <Notice tone="good">{t("proof.done")}</Notice>
        <p className="other">
          <Link to="/">{t("proof.stay")}</Link>
        </p>
      </section>
    </main>
  );
}

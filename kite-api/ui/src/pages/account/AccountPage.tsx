import { Page } from "../../components/Page";
import { useT } from "../../i18n";
import { IdentitiesSection } from "./IdentitiesSection";
import { PasswordSection } from "./PasswordSection";
import { ProfileSection } from "./ProfileSection";
import { SessionsSection } from "./SessionsSection";
import { TokensSection } from "./TokensSection";
import { TotpSection } from "./TotpSection";

/** One's own account. */
export default function AccountPage() {
  const t = useT();
  return (
    <Page title={t("account.title")} lead={t("account.lead")}>
      <div className="columns">
        <div className="stack">
          <ProfileSection />
          <PasswordSection />
          <IdentitiesSection />
          <TotpSection />
        </div>
        <div className="stack">
          <SessionsSection />
          <TokensSection />
        </div>
      </div>
    </Page>
  );
}

import LogOut from "lucide-react/icons/log-out";
import { useState } from "react";
import * as calls from "../../api/calls";
import { tellSignedOut } from "../../api/client";
import { Button } from "../../components/Button";
import { Confirm } from "../../components/Confirm";
import { Section } from "../../components/Page";
import { Switch } from "../../components/Switch";
import { useT } from "../../i18n";
import { leave } from "../../shell/leaving";

/** Ends every session there is, for when they may be known to others. */
export function EveryoneSection() {
  const t = useT();
  const [asking, setAsking] = useState(false);
  return (
    <Section title={t("everyone.title")} lead={t("everyone.lead")}>
      <div>
        <Button look="danger" icon={<LogOut aria-hidden />} onPress={() => setAsking(true)}>
          {t("everyone.open")}
        </Button>
      </div>
      <Confirm
        title={t("everyone.ask")}
        submit={t("everyone.submit")}
        consequence={t("everyone.consequence")}
        done={t("everyone.done")}
        isOpen={asking}
        onClose={() => setAsking(false)}
        send={async (data) => {
          await leave(() => calls.signOutEveryone(data.has("tokens")));
          tellSignedOut();
        }}
      >
        <Switch name="tokens" hint={t("everyone.tokensHint")}>
          {t("everyone.tokens")}
        </Switch>
      </Confirm>
    </Section>
  );
}

// What is left when a page cannot be shown: a fault of the page, or a part of it that
// was not to be had.

import { useRouteError } from "react-router";
import { Button } from "../components/Button";
import { Empty } from "../components/Empty";
import { useT } from "../i18n";

export function Broken() {
  const t = useT();
  const error = useRouteError();
  return (
    <main className="splash">
      <Empty
        title={t("broken.title")}
        action={
          <Button look="primary" onPress={() => window.location.reload()}>
            {t("broken.again")}
          </Button>
        }
      >
        {t("broken.lead")} <code>{String(error)}</code>
      </Empty>
    </main>
  );
}

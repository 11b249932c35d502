import { lazy, Suspense, useState } from "react";
import BellIcon from "lucide-react/icons/bell";
import { useNotices } from "../api/queries";
import { Button } from "../components/Button";
import { useT } from "../i18n";

const NoticesDialog = lazy(() => import("./NoticesDialog"));

/** Tells how much there is that the account's owner has not seen, and shows it. */
export function Bell() {
  const t = useT();
  const notices = useNotices().data;
  const [open, setOpen] = useState(false);
  const count = (notices?.items.length ?? 0) + (notices?.more ?? 0);
  return (
    <span className="bell">
      <Button
        look="quiet"
        icon={<BellIcon aria-hidden />}
        aria-label={count === 0 ? t("notices.none") : t("notices.count", { count })}
        onPress={() => setOpen(true)}
      />
      {count > 0 && (
        <span className="count" aria-hidden>
          {count}
        </span>
      )}
      {open && (
        <Suspense fallback={null}>
          <NoticesDialog onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </span>
  );
}

import { ModalOverlay, Modal } from "react-aria-components/Modal";
import { Dialog } from "react-aria-components/Dialog";
import MenuIcon from "lucide-react/icons/menu";
import { Suspense, useCallback, useEffect, useRef, useState } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { useLiveNews, type Sink } from "../api/live";
import { keys, queries, refetchDisks } from "../api/queries";
import { Button } from "../components/Button";
import { Loading } from "../components/Loaded";
import { Logo } from "../components/Logo";
import { useT } from "../i18n";
import { useIsOver } from "../lib/over";
import { serial } from "../lib/serial";
import { Bell } from "./Bell";
import { forgetFailure } from "./failure";
import { ProviderFailed } from "./ProviderFailed";
import { Sidebar } from "./Sidebar";

type Named = { name: string; uid?: string };

/** People come and go all the time: lists of them are asked for again no faster. */
const SESSIONS_PAUSE_MS = 1000;

/** News go into the cache that the pages read. */
const SINK: Sink = {
  set: (what, value) => queries.setQueryData(keys[what], value),
  put: (list, item) =>
    queries.setQueryData(keys[list], (items: Named[] | undefined) =>
      [...(items ?? []).filter((other) => other.name !== item.name), item].sort((a, b) => (a.name < b.name ? -1 : 1)),
    ),
  drop: (list, name) =>
    queries.setQueryData(keys[list], (items: Named[] | undefined) => items?.filter((item) => item.name !== name)),
  sessionsChanged: serial(() => queries.invalidateQueries({ queryKey: keys.vmSessions }), SESSIONS_PAUSE_MS),
  disksChanged: serial(refetchDisks, SESSIONS_PAUSE_MS),
  noticesChanged: serial(() => queries.invalidateQueries({ queryKey: keys.notices }), SESSIONS_PAUSE_MS),
  isSignedIn: async () => {
    await queries.refetchQueries({ queryKey: keys.me });
    return Boolean(queries.getQueryData(keys.me));
  },
};

/** The frame of every page: where one can go on the left, the page beside it. */
export function Layout() {
  const t = useT();
  const location = useLocation();
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const close = useCallback(() => setOpen(false), []);
  const isOver = useIsOver();
  useLiveNews(SINK, isOver);

  const shown = useRef(location.pathname);
  useEffect(() => {
    setOpen(false);
    // Who hears the page is told of the new one.
    if (shown.current === location.pathname) return;
    shown.current = location.pathname;
    forgetFailure();
    main.current?.focus();
    window.scrollTo(0, 0);
  }, [location.pathname]);

  return (
    <div className="layout">
      <a className="skip" href="#main">
        {t("skip")}
      </a>
      <header className="topbar">
        <Button look="quiet" icon={<MenuIcon aria-hidden />} aria-label={t("nav.open")} onPress={() => setOpen(true)} />
        <Link to="/" className="brand">
          <Logo size={28} /> Kite
        </Link>
        <Bell />
      </header>
      <aside className="sidebar">
        <Sidebar />
      </aside>
      <ModalOverlay className="overlay drawer-overlay" isOpen={open} onOpenChange={setOpen} isDismissable>
        <Modal className="drawer">
          <Dialog aria-label={t("nav.label")} className="drawer-dialog">
            <Sidebar onLeave={close} />
          </Dialog>
        </Modal>
      </ModalOverlay>
      <main id="main" ref={main} tabIndex={-1}>
        <ProviderFailed />
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}

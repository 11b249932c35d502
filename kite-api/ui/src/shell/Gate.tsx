// Who may see which part.

import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { Account, useAccount, useConfig, useMe } from "../api/queries";
import { Loading } from "../components/Loaded";
import { Notice } from "../components/Notice";
import { useT } from "../i18n";
import { isLeaving } from "./leaving";

const FactorSetup = lazy(() => import("./FactorSetup"));

/** What the way in is told. */
export interface EntranceState {
  /** Where to go afterwards. */
  next?: string;
  /** Why one is here. */
  why?: "ended" | "signed-out";
}

/** Shows its children to whoever is signed in; others are led to the way in. */
export function SignedIn({ children }: { children: ReactNode }) {
  const location = useLocation();
  const me = useMe();
  const config = useConfig();
  const before = useRef(false);
  // Until whoever sets a second factor up has seen the recovery codes.
  const [isSettingUp, setSettingUp] = useState(false);
  const isMissing = me.data?.secondFactorMissing === true;
  useEffect(() => {
    if (isMissing) setSettingUp(true);
  }, [isMissing]);
  if (me.data) {
    before.current = true;
    return (
      <Account value={me.data}>
        {isMissing || isSettingUp ? (
          <Suspense fallback={<Splash />}>
            <FactorSetup onDone={() => setSettingUp(false)} />
          </Suspense>
        ) : (
          children
        )}
      </Account>
    );
  }
  if (me.data === undefined || (config.data === undefined && !config.isError)) {
    return <Splash />;
  }
  const next = location.pathname + location.search;
  const ended: EntranceState = { next, ...(before.current ? { why: "ended" as const } : {}) };
  const state: EntranceState = isLeaving() ? { why: "signed-out" } : ended;
  const to = config.data?.bootstrapOpen && !before.current ? "/bootstrap" : "/sign-in";
  return <Navigate to={to} replace state={state} />;
}

function Splash() {
  return (
    <main className="splash">
      <Loading />
    </main>
  );
}

/** Shows pages of administrators to them alone. */
export function AdminOnly() {
  const t = useT();
  const me = useAccount();
  return me.accessLevel === "Admin" ? <Outlet /> : <Notice tone="bad">{t("admin.only")}</Notice>;
}

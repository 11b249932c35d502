// Who may see which part.

import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { Account, forgetOthers, useAccount, useConfig, useMe } from "../api/queries";
import type { Me } from "../api/types";
import { Loading } from "../components/Loaded";
import { Notice } from "../components/Notice";
import { useT } from "../i18n";
import { hasEdits } from "../lib/edited";
import { Over } from "../lib/over";
import { isLeaving } from "./leaving";

const FactorSetup = lazy(() => import("./FactorSetup"));
const SignInAgain = lazy(async () => ({ default: (await import("./rare")).SignInAgain }));

/** What the way in is told. */
export interface EntranceState {
  /** Where to go afterwards. */
  next?: string;
  /** Why one is here. */
  why?: "ended" | "signed-out";
}

/** Shows its children to whoever is signed in; others are led to the way in. Where a
 * session ends while something is typed, that stays until its owner is in again. */
export function SignedIn({ children }: { children: ReactNode }) {
  const location = useLocation();
  const me = useMe();
  const config = useConfig();
  const last = useRef<Me | null>(null);
  /** Whether something is typed that would be lost. */
  const [isKept, setKept] = useState(false);
  const isOver = me.data === null && last.current !== null && !isLeaving();
  const [wasOver, setWasOver] = useState(false);
  if (isOver !== wasOver) {
    setWasOver(isOver);
    setKept(isOver && hasEdits(document.body));
  }
  // Until whoever sets a second factor up has seen the recovery codes.
  const [settingUp, setSettingUp] = useState<string>();
  const missing = me.data?.secondFactorMissing === true ? me.data.name : undefined;
  useEffect(() => {
    if (missing !== undefined) setSettingUp(missing);
  }, [missing]);
  useEffect(() => {
    const before = last.current;
    if (!me.data) return;
    last.current = me.data;
    // What another account could see is nobody else's.
    if (before !== null && before.name !== me.data.name) forgetOthers();
  }, [me.data]);

  const account = me.data ?? (isOver && isKept ? last.current : null);
  if (account !== null) {
    return (
      <>
        <Over value={isOver}>
          <Account key={account.name} value={account}>
            {[missing, settingUp].includes(account.name) ? (
              <Suspense fallback={<Splash />}>
                <FactorSetup onDone={() => setSettingUp(undefined)} />
              </Suspense>
            ) : (
              children
            )}
          </Account>
        </Over>
        {isOver && (
          <Suspense fallback={null}>
            <SignInAgain me={account} onDiscard={() => setKept(false)} />
          </Suspense>
        )}
      </>
    );
  }
  if (me.data === undefined || (config.data === undefined && !config.isError)) {
    return <Splash />;
  }
  const before = last.current !== null;
  const next = location.pathname + location.search;
  const ended: EntranceState = { next, ...(before ? { why: "ended" as const } : {}) };
  const state: EntranceState = isLeaving() ? { why: "signed-out" } : ended;
  const to = config.data?.bootstrapOpen && !before ? "/bootstrap" : "/sign-in";
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

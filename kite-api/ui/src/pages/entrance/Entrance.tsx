import { useEffect, type ReactNode } from "react";
import { Navigate, useLocation } from "react-router";
import { forgetOthers, keys, queries, useMe } from "../../api/queries";
import { Logo } from "../../components/Logo";
import { forgetFailure, useFailure } from "../../shell/failure";
import type { EntranceState } from "../../shell/Gate";
import { setLeaving } from "../../shell/leaving";
import { Preferences } from "../../shell/Preferences";
import { ProviderFailed } from "../../shell/ProviderFailed";

interface Props {
  title: string;
  lead: string;
  /** For who is signed in already, in place of going on. */
  inside?: ReactNode;
  children: ReactNode;
}

/** The frame of the way in. Whoever is in already goes on to where they were; where
 * a provider failed them, to the account, for it was most likely to be linked. */
export function Entrance({ title, lead, inside, children }: Props) {
  const me = useMe();
  const failure = useFailure();
  const next = useEntranceState().next ?? (failure === null ? "/" : "/account");
  useEffect(() => {
    document.title = `${title} · Kite`;
  }, [title]);
  if (me.data && inside === undefined) return <Navigate to={next} replace />;
  return (
    <main className="entrance">
      <section className="card">
        <p className="brand">
          <Logo size={44} /> Kite
        </p>
        <h1>{title}</h1>
        {me.data ? (
          inside
        ) : (
          <>
            <p className="lead">{lead}</p>
            {/* Once it is known that it is not to be told on another page. */}
            {!me.isPending && <ProviderFailed />}
            {children}
          </>
        )}
      </section>
      <Preferences />
    </main>
  );
}

export function useEntranceState(): EntranceState {
  return (useLocation().state as EntranceState | null) ?? {};
}

/** Forgets what another account could see and looks who one is now. */
export async function entered(): Promise<void> {
  setLeaving(false);
  forgetFailure();
  forgetOthers();
  void queries.invalidateQueries({ queryKey: keys.config });
  await queries.refetchQueries({ queryKey: keys.me });
}

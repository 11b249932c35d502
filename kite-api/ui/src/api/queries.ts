// What the pages read, kept in one cache.

import {
  keepPreviousData,
  QueryCache,
  QueryClient,
  useQuery,
  type QueryPersister,
  type UseQueryResult,
} from "@tanstack/react-query";
import { createContext, useContext } from "react";
import * as calls from "./calls";
import { heardError, heardFrom, useIsConnectionLost } from "./connection";
import { useIsLive, useLiveDisks, useLiveSessions, type Followed } from "./live";
import { isMissing, ProblemError } from "./problem";
import { useIsOver } from "../lib/over";
import type { Me, Vm } from "./types";

/** Keeps what came while an answer was awaited: news, or what a write has answered. The
 * answer may be older, and no news would ever mend that. */
const unlessNewsCame: QueryPersister = async (ask, context, query) => {
  const before = query.state.dataUpdateCount;
  const answer: unknown = await ask(context);
  const { data, dataUpdateCount } = query.state as { data: unknown; dataUpdateCount: number };
  return dataUpdateCount === before || data === undefined ? answer : data;
};

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: heardError, onSuccess: heardFrom }),
  defaultOptions: {
    queries: { retry: false, networkMode: "always", staleTime: 1000, persister: unlessNewsCame },
    mutations: { retry: false, networkMode: "always", onSuccess: heardFrom, onError: heardError },
  },
});

/** How often to ask while no events come. */
export const POLL_MS = 2000;
/** How often to ask for what events do not tell. */
const SLOW_MS = 15_000;
/** How often to ask for notices, of which events tell that there may be some. */
const NOTICES_MS = 60_000;

export const keys = {
  config: ["config"],
  me: ["me"],
  vms: ["vms"],
  images: ["images"],
  offers: ["offers"],
  sessions: ["sessions"],
  tokens: ["tokens"],
  totp: ["totp"],
  notices: ["notices"],
  vmSessions: ["vm-sessions"],
  snapshots: ["snapshots"],
  volumes: ["volumes"],
  identities: ["identities"],
  allVms: ["admin", "vms"],
  allOffers: ["admin", "offers"],
  allImages: ["admin", "images"],
  users: ["admin", "users"],
  platform: ["admin", "platform"],
  capacity: ["admin", "capacity"],
  invites: ["admin", "invites"],
  certificate: ["admin", "certificate"],
} as const;

/** True also where it cannot be asked: replicas of the API may be older than the page. */
async function isSignedIn(): Promise<boolean> {
  try {
    return await calls.isSignedIn();
  } catch (error) {
    if (isMissing(error)) return true;
    throw error;
  }
}

/** The account, or null where nobody is signed in. Who was not a moment ago is asked for
 * first: browsers note each refusal as an error of the page. */
async function fetchMe(): Promise<Me | null> {
  const before = queries.getQueryData<Me | null>(keys.me);
  try {
    if (!before && !(await isSignedIn())) return null;
    return await calls.getMe();
  } catch (error) {
    if (error instanceof ProblemError && error.status === 401) return null;
    throw error;
  }
}

/** Asks in intervals where no event would tell, and whether the API is back. */
function useNews(): number | false {
  const live = useIsLive();
  const lost = useIsConnectionLost();
  return usePolling(live && !lost ? false : POLL_MS);
}

/** Nothing is asked for in the name of a session that has ended. */
function usePolling(pause: number | false): number | false {
  return useIsOver() ? false : pause;
}

export const useConfig = () =>
  useQuery({
    queryKey: keys.config,
    queryFn: calls.getConfig,
    staleTime: 60_000,
    refetchInterval: (query) => (query.state.status === "error" ? POLL_MS : false),
  });
export const useMe = () => {
  const news = useNews();
  return useQuery({
    queryKey: keys.me,
    queryFn: fetchMe,
    refetchInterval: (query) => (query.state.data === null ? false : news),
  });
};
export const useVms = () => useQuery({ queryKey: keys.vms, queryFn: calls.listVms, refetchInterval: useNews() });
export const useImages = () => useQuery({ queryKey: keys.images, queryFn: calls.listImages, refetchInterval: useNews() });
export const useOffers = () => useQuery({ queryKey: keys.offers, queryFn: calls.listOffers, refetchInterval: useNews() });
export const useSessions = () =>
  useQuery({ queryKey: keys.sessions, queryFn: calls.listSessions, refetchInterval: usePolling(SLOW_MS) });
/** Follows sessions by events, which only tell that there is something new. */
function useSessionsNews(of: Followed): number | false {
  useLiveSessions(of);
  return usePolling(useNews() || SLOW_MS);
}
export const useVmSessions = (vm: calls.Ref) =>
  useQuery({
    queryKey: [...keys.vmSessions, vm.owner ?? null, vm.name],
    queryFn: () => calls.listVmSessions(vm),
    refetchInterval: useSessionsNews(vm.owner === undefined ? "own" : "all"),
  });
export const useAllSessions = (live: boolean, search: string) =>
  useQuery({
    queryKey: [...keys.vmSessions, "all", live, search],
    queryFn: () => calls.listAllSessions(live, search),
    refetchInterval: useSessionsNews("all"),
    placeholderData: keepPreviousData,
  });
/** Follows snapshots and volumes in the same way. */
function useDisksNews(owner: string | undefined): number | false {
  useLiveDisks(owner === undefined ? "own" : "all");
  return usePolling(useNews() || SLOW_MS);
}
/** Of one VM, or of all that an account has; without an owner one's own. */
export const useSnapshots = (owner: string | undefined, vm?: string) =>
  useQuery({
    queryKey: [...keys.snapshots, owner ?? null, vm ?? null],
    queryFn: () => calls.listSnapshots(owner, vm),
    refetchInterval: useDisksNews(owner),
  });
export const useVolumes = (owner: string | undefined) =>
  useQuery({
    queryKey: [...keys.volumes, owner ?? null],
    queryFn: () => calls.listVolumes(owner),
    refetchInterval: useDisksNews(owner),
  });
/** Everybody's. */
export const useAllVolumes = () =>
  useQuery({
    queryKey: [...keys.volumes, "all"],
    queryFn: calls.listAllVolumes,
    refetchInterval: useDisksNews("all"),
  });
/** Has snapshots and volumes be asked for again. */
export const refetchDisks = () =>
  Promise.all([keys.snapshots, keys.volumes].map((queryKey) => queries.invalidateQueries({ queryKey })));
export const useTotp = () => useQuery({ queryKey: keys.totp, queryFn: calls.getTotp });
/** What the account's owner has not seen; nothing where the API is older than the page. */
export const useNotices = () =>
  useQuery({
    queryKey: keys.notices,
    queryFn: async () => {
      try {
        return await calls.listNotices();
      } catch (error) {
        if (isMissing(error)) return { items: [], more: 0 };
        throw error;
      }
    },
    // Also for what begins by the clock.
    refetchInterval: NOTICES_MS,
  });
export const useIdentities = () => useQuery({ queryKey: keys.identities, queryFn: calls.listIdentities });
export const useTokens = () => useQuery({ queryKey: keys.tokens, queryFn: calls.listTokens });
export const useAllVms = () =>
  useQuery({ queryKey: keys.allVms, queryFn: calls.listAllVms, refetchInterval: usePolling(POLL_MS) });
export const useAllOffers = () =>
  useQuery({ queryKey: keys.allOffers, queryFn: calls.listAllOffers, refetchInterval: usePolling(POLL_MS) });
export const useAllImages = () =>
  useQuery({ queryKey: keys.allImages, queryFn: calls.listAllImages, refetchInterval: usePolling(SLOW_MS) });
export const useUsers = () => useQuery({ queryKey: keys.users, queryFn: calls.listUsers, refetchInterval: usePolling(POLL_MS) });
export const useCapacity = () =>
  useQuery({ queryKey: keys.capacity, queryFn: calls.getCapacity, refetchInterval: usePolling(2 * SLOW_MS) });
export const useInvites = () =>
  useQuery({ queryKey: keys.invites, queryFn: calls.listInvites, refetchInterval: usePolling(POLL_MS) });
export const useCertificate = () =>
  useQuery({ queryKey: keys.certificate, queryFn: calls.getCertificate, refetchInterval: usePolling(SLOW_MS) });
export const usePlatform = () =>
  useQuery({ queryKey: keys.platform, queryFn: calls.getPlatform, refetchInterval: usePolling(SLOW_MS) });

/** One VM: one's own from the list, another account's by itself. */
export function useVm(name: string, owner: string | undefined): UseQueryResult<Vm | undefined> {
  const news = useNews();
  const always = usePolling(POLL_MS);
  const polling = owner === undefined ? news : always;
  return useQuery({
    queryKey: owner === undefined ? keys.vms : [...keys.allVms, owner, name],
    queryFn: async () => (owner === undefined ? calls.listVms() : [await calls.getVm({ name, owner })]),
    select: (vms: Vm[]) => vms.find((vm) => vm.name === name),
    refetchInterval: polling,
  });
}

/** Not the cache itself: what is shown of a session that has just ended keeps its account
 * until it is shown no more. */
export const Account = createContext<Me | null>(null);

/** The account of whoever is signed in; pages below the sign-in have one. */
export function useAccount(): Me {
  const me = useContext(Account);
  if (!me) throw new Error("useAccount is for what is shown to whoever is signed in");
  return me;
}

/** Forgets all that is not for everybody, but who is signed in. */
export function forgetOthers(): void {
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== keys.config[0] && queryKey[0] !== keys.me[0] });
}

/** Puts an answer into the lists at once, before the next news. */
export function putVm(vm: Vm): void {
  const put = (vms: Vm[] | undefined) =>
    vms && [...vms.filter((other) => other.uid !== vm.uid), vm].sort((a, b) => (a.name < b.name ? -1 : 1));
  const me = queries.getQueryData<Me | null>(keys.me);
  if (me && vm.owner === me.name) queries.setQueryData(keys.vms, put);
  queries.setQueryData([...keys.allVms, vm.owner, vm.name], [vm]);
  void queries.invalidateQueries({ queryKey: keys.allVms, exact: true });
}

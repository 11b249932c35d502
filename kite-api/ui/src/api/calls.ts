// Every request that the pages make, one function each.

import { ask, client, renews } from "./client";
import type { Body, Capacity, Certificate, Config, ConsoleKind, Identity, Image, Invite, InviteMade, Me, Offer, Platform, Presence, Session, Token, Totp, TotpState, User, Vm, VmSession } from "./types";

interface Items<T> {
  items: T[];
  next?: string | null;
}

/** All pages of a list. */
async function all<T>(page: (query: { limit: number; after?: string }) => Promise<Items<T>>): Promise<T[]> {
  const items: T[] = [];
  let after: string | undefined;
  do {
    const answer = await page({ limit: 1000, ...(after === undefined ? {} : { after }) });
    items.push(...answer.items);
    after = answer.next ?? undefined;
  } while (after !== undefined);
  return items;
}

/** A creation whose answer was lost can be asked for again. */
const once = () => ({ header: { "Idempotency-Key": key() } });

/** Not randomUUID, which browsers have over HTTPS only. */
function key(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const getConfig = () => ask<Config>(client.GET("/api/v1/config"));

export const bootstrap = (body: Body) => ask<unknown>(client.POST("/api/v1/auth/bootstrap", { body: { ...body, cookie: true } as never }));
export const signIn = (body: Body) => ask<unknown>(client.POST("/api/v1/auth/sign-in", { body: { ...body, cookie: true } as never }));
export const signUp = (body: Body) => ask<unknown>(client.POST("/api/v1/auth/sign-up", { body: { ...body, cookie: true } as never }));
export const signOut = () => ask<unknown>(client.POST("/api/v1/auth/sign-out"));

/** Whether somebody is signed in; nobody is refused. */
export const isSignedIn = async () => (await ask<Presence>(client.GET("/api/v1/auth/session"))).signedIn;
export const getMe = () => ask<Me>(client.GET("/api/v1/me"));
export const editMe = (body: Body, etag?: string) =>
  ask<User>(client.PATCH("/api/v1/me", { params: unless(etag), body: body as never }));
export const changePassword = (body: Body) =>
  renews(ask<unknown>(client.POST("/api/v1/me/password", { body: { ...body, cookie: true } as never })));
export const listSessions = async () => (await ask<Items<Session>>(client.GET("/api/v1/me/sessions"))).items;
export const endSession = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/me/sessions/{name}", { params: { path: { name } } }));
export const endOtherSessions = () => ask<unknown>(client.DELETE("/api/v1/me/sessions"));
export const listIdentities = async () => (await ask<Items<Identity>>(client.GET("/api/v1/me/identities"))).items;
export const linkIdentity = (body: Body) => ask<{ url: string }>(client.POST("/api/v1/me/identities", { body: body as never }));
export const unlinkIdentity = (id: string) =>
  ask<unknown>(client.DELETE("/api/v1/me/identities/{id}", { params: { path: { id } } }));
export const listTokens = async () => (await ask<Items<Token>>(client.GET("/api/v1/me/tokens"))).items;
export const createToken = (body: Body) => ask<{ token: string }>(client.POST("/api/v1/me/tokens", { body: body as never }));
export const deleteToken = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/me/tokens/{name}", { params: { path: { name } } }));
export const getTotp = () => ask<TotpState>(client.GET("/api/v1/me/totp"));
export const beginTotp = () => ask<Totp>(client.POST("/api/v1/me/totp"));
export const confirmTotp = (body: Body) => 
  ask<{ recoveryCodes: string[] }>(client.POST("/api/v1/me/totp/confirm", { body: body as never }));
export const endTotp = (body: Body) => ask<unknown>(client.DELETE("/api/v1/me/totp", { body: body as never }));

/** An edit that counts only if nobody else edited what has this tag. */
const unless = (etag: string | undefined) => (etag === undefined ? {} : { header: { "If-Match": etag } });

/** Whose VM: absent for one's own. */
export interface VmRef {
  name: string;
  owner?: string | undefined;
}

const vmParams = ({ name, owner }: VmRef) => ({
  params: { path: { name }, query: owner === undefined ? {} : { owner } },
});

export const listVms = () => all<Vm>((query) => ask(client.GET("/api/v1/vms", { params: { query } })));
export const listAllVms = () => all<Vm>((query) => ask(client.GET("/api/v1/vms", { params: { query: { ...query, all: true } } })));
export const getVm = (vm: VmRef) => ask<Vm>(client.GET("/api/v1/vms/{name}", vmParams(vm)));
export const createVm = (body: Body) => ask<Vm>(client.POST("/api/v1/vms", { body: body as never, params: once() }));
export const editVm = (vm: VmRef, body: Body, etag?: string) => {
  const { params } = vmParams(vm);
  return ask<Vm>(client.PATCH("/api/v1/vms/{name}", { params: { ...params, ...unless(etag) }, body: body as never }));
};
export const deleteVm = (vm: VmRef) => ask<Vm>(client.DELETE("/api/v1/vms/{name}", vmParams(vm)));
export const startVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/start", vmParams(vm)));
export const stopVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/stop", vmParams(vm)));
export const restartVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/restart", vmParams(vm)));
export const openConsole = (vm: VmRef, kind: ConsoleKind) =>
  ask<{ ticket: string }>(client.POST("/api/v1/vms/{name}/console", { ...vmParams(vm), body: { kind } }));

export const listVmSessions = ({ name, owner }: VmRef) =>
  all<VmSession>((query) =>
    ask(
      client.GET("/api/v1/vms/{name}/sessions", {
        params: { path: { name }, query: owner === undefined ? query : { ...query, owner } },
      }),
    ),
  );
/** The newest sessions in all VMs. */
export const listAllSessions = (live: boolean, search: string) =>
  ask<{ items: VmSession[]; total: number }>(
    client.GET("/api/v1/admin/sessions", { params: { query: { live, limit: 200, ...(search ? { search } : {}) } } }),
  );
/** Ends a session: as whoever has the VM in view, or as who has all in view. */
export const endVmSession = ({ name, vm, owner }: VmSession, ofVm: boolean, reason: string | undefined) => {
  const query = reason === undefined ? {} : { reason };
  return ask<VmSession>(
    ofVm
      ? client.DELETE("/api/v1/vms/{name}/sessions/{session}", {
          params: { path: { name: vm, session: name }, query: { ...query, owner } },
        })
      : client.DELETE("/api/v1/admin/sessions/{name}", { params: { path: { name }, query } }),
  );
};
export const getRecording = (session: string, recording: string, signal: AbortSignal) =>
  ask<ReadableStream<Uint8Array>>(
    client.GET("/api/v1/admin/sessions/{name}/recordings/{recording}", {
      params: { path: { name: session, recording } },
      parseAs: "stream",
      signal,
    }),
  );
/** Where a browser gets a recording as a file. */
export const recordingPath = (session: string, recording: string) =>
  `/api/v1/admin/sessions/${encodeURIComponent(session)}/recordings/${encodeURIComponent(recording)}`;

export const listImages = () => all<Image>((query) => ask(client.GET("/api/v1/images", { params: { query } })));

export const listOffers = () => all<Offer>((query) => ask(client.GET("/api/v1/offers", { params: { query } })));
export const claimOffer = (name: string, body: Body) =>
  ask<Vm>(client.POST("/api/v1/offers/{name}/claim", { params: { path: { name }, ...once() }, body: body as never }));

export const listAllOffers = () => all<Offer>((query) => ask(client.GET("/api/v1/admin/offers", { params: { query } })));
export const createOffer = (body: Body) => ask<Offer>(client.POST("/api/v1/admin/offers", { body: body as never, params: once() }));
export const deleteOffer = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/admin/offers/{name}", { params: { path: { name } } }));

export const listUsers = () => all<User>((query) => ask(client.GET("/api/v1/admin/users", { params: { query } })));
export const createUser = (body: Body) => ask<User>(client.POST("/api/v1/admin/users", { body: body as never, params: once() }));
export const editUser = (name: string, body: Body, etag?: string) =>
  ask<User>(client.PATCH("/api/v1/admin/users/{name}", { params: { path: { name }, ...unless(etag) }, body: body as never }));
export const deleteUser = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/admin/users/{name}", { params: { path: { name } } }));

export const unlinkUser = (name: string, id: string) =>
  ask<unknown>(client.DELETE("/api/v1/admin/users/{name}/identities/{id}", { params: { path: { name, id } } }));

export const getCapacity = () => ask<Capacity>(client.GET("/api/v1/admin/capacity"));
export const listInvites = () => all<Invite>((query) => ask(client.GET("/api/v1/admin/invites", { params: { query } })));
export const createInvite = (body: Body) =>
  ask<InviteMade>(client.POST("/api/v1/admin/invites", { body: body as never, params: once() }));
export const deleteInvite = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/admin/invites/{name}", { params: { path: { name } } }));

export const getPlatform = () => ask<Platform>(client.GET("/api/v1/admin/platform"));
export const editPlatform = (body: Body, etag?: string) =>
  ask<Platform>(client.PATCH("/api/v1/admin/platform", { params: unless(etag), body: body as never }));
export const getCertificate = () => ask<Certificate>(client.GET("/api/v1/admin/certificate"));
export const putCertificate = (body: Body) =>
  ask<Certificate>(client.PUT("/api/v1/admin/certificate", { body: body as never }));
export const deleteCertificate = () => ask<unknown>(client.DELETE("/api/v1/admin/certificate"));

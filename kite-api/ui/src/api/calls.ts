// Every request that the pages make, one function each.

import { ask, askFor, client, renews } from "./client";
import type { Body, Config, Identity, Image, Me, Offer, Platform, Session, Token, Totp, TotpState, User, Vm } from "./types";

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

export const getMe = () => ask<Me>(client.GET("/api/v1/me"));
export const editMe = (body: Body) => ask<User>(client.PATCH("/api/v1/me", { body: body as never }));
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
export const listTokens = async () => (await askFor<Items<Token>>("GET", "/me/tokens")).items;
export const createToken = (body: Body) => askFor<{ token: string }>("POST", "/me/tokens", body);
export const deleteToken = (name: string) => askFor<unknown>("DELETE", `/me/tokens/${encodeURIComponent(name)}`);
export const getTotp = () => askFor<TotpState>("GET", "/me/totp");
export const beginTotp = () => askFor<Totp>("POST", "/me/totp");
export const confirmTotp = (body: Body) => askFor<{ recoveryCodes: string[] }>("POST", "/me/totp/confirm", body);
export const endTotp = (body: Body) => askFor<unknown>("DELETE", "/me/totp", body);

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
export const editVm = (vm: VmRef, body: Body) => ask<Vm>(client.PATCH("/api/v1/vms/{name}", { ...vmParams(vm), body: body as never }));
export const deleteVm = (vm: VmRef) => ask<Vm>(client.DELETE("/api/v1/vms/{name}", vmParams(vm)));
export const startVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/start", vmParams(vm)));
export const stopVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/stop", vmParams(vm)));
export const restartVm = (vm: VmRef) => ask<Vm>(client.POST("/api/v1/vms/{name}/restart", vmParams(vm)));
export const openConsole = ({ name, owner }: VmRef, kind: string) => {
  const query = owner === undefined ? "" : `?owner=${encodeURIComponent(owner)}`;
  return askFor<{ ticket: string }>("POST", `/vms/${encodeURIComponent(name)}/console${query}`, { kind });
};

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
export const editUser = (name: string, body: Body) =>
  ask<User>(client.PATCH("/api/v1/admin/users/{name}", { params: { path: { name } }, body: body as never }));
export const deleteUser = (name: string) =>
  ask<unknown>(client.DELETE("/api/v1/admin/users/{name}", { params: { path: { name } } }));

export const getPlatform = () => askFor<Platform>("GET", "/admin/platform");
export const editPlatform = (body: Body) => askFor<Platform>("PATCH", "/admin/platform", body);

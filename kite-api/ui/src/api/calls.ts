// Every request that the pages make, one function each.

import { ask, client } from "./client";
import type { Body, Config, Image, Invite, Me, Offer, Platform, Session, Token, Totp, User, Vm } from "./types";

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

const once = () => ({ "Idempotency-Key": crypto.randomUUID() });

export const getConfig = () => ask<Config>(client.GET("/config"));

export const bootstrap = (body: Body) => ask<unknown>(client.POST("/auth/bootstrap", { body: { ...body, cookie: true } }));
export const signIn = (body: Body) => ask<unknown>(client.POST("/auth/sign-in", { body: { ...body, cookie: true } }));
export const signUp = (body: Body) => ask<unknown>(client.POST("/auth/sign-up", { body: { ...body, cookie: true } }));
export const signOut = () => ask<unknown>(client.POST("/auth/sign-out"));

export const getMe = () => ask<Me>(client.GET("/me"));
export const editMe = (body: Body) => ask<User>(client.PATCH("/me", { body }));
export const changePassword = (body: Body) =>
  ask<unknown>(client.POST("/me/password", { body: { ...body, cookie: true } }));
export const listSessions = async () => (await ask<Items<Session>>(client.GET("/me/sessions"))).items;
export const endSession = (name: string) =>
  ask<unknown>(client.DELETE("/me/sessions/{name}", { params: { path: { name } } }));
export const endOtherSessions = () => ask<unknown>(client.DELETE("/me/sessions"));
export const listTokens = async () => (await ask<Items<Token>>(client.GET("/me/tokens"))).items;
export const createToken = (body: Body) => ask<{ token: string }>(client.POST("/me/tokens", { body }));
export const deleteToken = (name: string) =>
  ask<unknown>(client.DELETE("/me/tokens/{name}", { params: { path: { name } } }));
export const beginTotp = (body: Body) => ask<Totp>(client.POST("/me/totp", { body }));
export const confirmTotp = (body: Body) => ask<{ recoveryCodes: string[] }>(client.POST("/me/totp/confirm", { body }));
export const endTotp = (body: Body) => ask<unknown>(client.DELETE("/me/totp", { body }));

/** Whose VM: absent for one's own. */
export interface VmRef {
  name: string;
  owner?: string | undefined;
}

const vmParams = ({ name, owner }: VmRef) => ({
  params: { path: { name }, query: owner === undefined ? {} : { owner } },
});

export const listVms = () => all<Vm>((query) => ask(client.GET("/vms", { params: { query } })));
export const listAllVms = () => all<Vm>((query) => ask(client.GET("/vms", { params: { query: { ...query, all: true } } })));
export const getVm = (vm: VmRef) => ask<Vm>(client.GET("/vms/{name}", vmParams(vm)));
export const createVm = (body: Body) => ask<Vm>(client.POST("/vms", { body, headers: once() }));
export const editVm = (vm: VmRef, body: Body) => ask<Vm>(client.PATCH("/vms/{name}", { ...vmParams(vm), body }));
export const deleteVm = (vm: VmRef) => ask<Vm>(client.DELETE("/vms/{name}", vmParams(vm)));
export const startVm = (vm: VmRef) => ask<Vm>(client.POST("/vms/{name}/start", vmParams(vm)));
export const stopVm = (vm: VmRef) => ask<Vm>(client.POST("/vms/{name}/stop", vmParams(vm)));
export const restartVm = (vm: VmRef) => ask<Vm>(client.POST("/vms/{name}/restart", vmParams(vm)));
export const openConsole = (vm: VmRef, kind: string) =>
  ask<{ ticket: string }>(client.POST("/vms/{name}/console", { ...vmParams(vm), body: { kind } }));

export const listImages = () => all<Image>((query) => ask(client.GET("/images", { params: { query } })));

export const listOffers = () => all<Offer>((query) => ask(client.GET("/offers", { params: { query } })));
export const claimOffer = (name: string, body: Body) =>
  ask<Vm>(client.POST("/offers/{name}/claim", { params: { path: { name } }, body, headers: once() }));

export const listAllOffers = () => all<Offer>((query) => ask(client.GET("/admin/offers", { params: { query } })));
export const createOffer = (body: Body) => ask<Offer>(client.POST("/admin/offers", { body, headers: once() }));
export const deleteOffer = (name: string) =>
  ask<unknown>(client.DELETE("/admin/offers/{name}", { params: { path: { name } } }));

export const listUsers = () => all<User>((query) => ask(client.GET("/admin/users", { params: { query } })));
export const createUser = (body: Body) => ask<User>(client.POST("/admin/users", { body, headers: once() }));
export const editUser = (name: string, body: Body) =>
  ask<User>(client.PATCH("/admin/users/{name}", { params: { path: { name } }, body }));
export const deleteUser = (name: string) =>
  ask<unknown>(client.DELETE("/admin/users/{name}", { params: { path: { name } } }));

export const getPlatform = () => ask<Platform>(client.GET("/admin/platform"));
export const editPlatform = (body: Body) => ask<Platform>(client.PATCH("/admin/platform", { body }));
export const listInvites = () => all<Invite>((query) => ask(client.GET("/admin/invites", { params: { query } })));
export const createInvite = (body: Body) => ask<Invite>(client.POST("/admin/invites", { body }));
export const deleteInvite = (name: string) =>
  ask<unknown>(client.DELETE("/admin/invites/{name}", { params: { path: { name } } }));

// Every request that the pages make, one function each.

import { ask, client, renews } from "./client";
import type { components } from "./schema";
import type { ConsoleKind, Image, Invite, Offer, Sent, Snapshot, User, Vm, VmSession, Volume } from "./types";

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

/** The API says what of a body is missing; what is undefined is not sent. */
const whole = <Name extends keyof components["schemas"]>(body: Sent<Name>) => body as components["schemas"][Name];

export const getConfig = () => ask(client.GET("/api/v1/config"));

export const bootstrap = (body: Sent<"Bootstrap">) =>
  ask(client.POST("/api/v1/auth/bootstrap", { body: whole<"Bootstrap">({ ...body, cookie: true }) }));
export const signIn = (body: Sent<"Credentials">) =>
  ask(client.POST("/api/v1/auth/sign-in", { body: whole<"Credentials">({ ...body, cookie: true }) }));
export const signUp = (body: Sent<"NewAccount">) =>
  ask(client.POST("/api/v1/auth/sign-up", { body: whole<"NewAccount">({ ...body, cookie: true }) }));
export const signOut = () => ask(client.POST("/api/v1/auth/sign-out"));

/** Shows again who one is. */
export const prove = (body: Sent<"Evidence">) => ask(client.POST("/api/v1/auth/prove", { body: whole<"Evidence">(body) }));

/** Whether somebody is signed in; nobody is refused. */
export const isSignedIn = async () => (await ask(client.GET("/api/v1/auth/session"))).signedIn;
export const getMe = () => ask(client.GET("/api/v1/me"));
export const editMe = (body: Sent<"AccountEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/me", { params: unless(etag), body: whole<"AccountEdit">(body) }));
export const changePassword = (body: Sent<"NewPassword">) =>
  renews(ask(client.POST("/api/v1/me/password", { body: whole<"NewPassword">({ ...body, cookie: true }) })));
export const listSessions = async () => (await ask(client.GET("/api/v1/me/sessions"))).items;
export const endSession = (name: string) =>
  ask(client.DELETE("/api/v1/me/sessions/{name}", { params: { path: { name } } }));
export const endOtherSessions = () => ask(client.DELETE("/api/v1/me/sessions"));
export const listIdentities = async () => (await ask(client.GET("/api/v1/me/identities"))).items;
export const linkIdentity = (body: Sent<"Link">) =>
  ask(client.POST("/api/v1/me/identities", { body: whole<"Link">(body) }));
export const unlinkIdentity = (id: string) =>
  ask(client.DELETE("/api/v1/me/identities/{id}", { params: { path: { id } } }));
export const listTokens = async () => (await ask(client.GET("/api/v1/me/tokens"))).items;
export const createToken = (body: Sent<"NewToken">) =>
  ask(client.POST("/api/v1/me/tokens", { body: whole<"NewToken">(body) }));
export const deleteToken = (name: string) =>
  ask(client.DELETE("/api/v1/me/tokens/{name}", { params: { path: { name } } }));
export const getTotp = () => ask(client.GET("/api/v1/me/totp"));
export const beginTotp = (body: Sent<"Proof">) => ask(client.POST("/api/v1/me/totp", { body: whole<"Proof">(body) }));
export const confirmTotp = (body: Sent<"Code">) =>
  ask(client.POST("/api/v1/me/totp/confirm", { body: whole<"Code">(body) }));
export const endTotp = (body: Sent<"Evidence">) =>
  ask(client.DELETE("/api/v1/me/totp", { body: whole<"Evidence">(body) }));

export const listNotices = () => ask(client.GET("/api/v1/me/notices"));
/** Puts away those with these ids, and so many of those of which only the number is known. */
export const seeNotices = (ids: string[], more: number) =>
  ask(client.POST("/api/v1/me/notices/seen", { body: { ids, more } }));

/** An edit that counts only if nobody else edited what has this tag. */
const unless = (etag: string | undefined) => (etag === undefined ? {} : { header: { "If-Match": etag } });

/** What is whose, such as a VM: without an owner one's own. */
export interface Ref {
  name: string;
  owner?: string | undefined;
}

const vmParams = ({ name, owner }: Ref) => ({
  params: { path: { name }, query: owner === undefined ? {} : { owner } },
});

/** An edit of it, as far as nobody else has edited what has this tag. */
const editParams = (ref: Ref, etag: string | undefined) => ({ ...vmParams(ref).params, ...unless(etag) });

export const listVms = () => all<Vm>((query) => ask(client.GET("/api/v1/vms", { params: { query } })));
export const listAllVms = () => all<Vm>((query) => ask(client.GET("/api/v1/vms", { params: { query: { ...query, all: true } } })));
export const getVm = (vm: Ref) => ask(client.GET("/api/v1/vms/{name}", vmParams(vm)));
export const createVm = (body: Sent<"NewVm">) => ask(client.POST("/api/v1/vms", { body: whole<"NewVm">(body), params: once() }));
export const editVm = (vm: Ref, body: Sent<"VmEdit">, etag?: string) => {
  return ask(client.PATCH("/api/v1/vms/{name}", { params: editParams(vm, etag), body: whole<"VmEdit">(body) }));
};
export const deleteVm = (vm: Ref) => ask(client.DELETE("/api/v1/vms/{name}", vmParams(vm)));
export const startVm = (vm: Ref) => ask(client.POST("/api/v1/vms/{name}/start", vmParams(vm)));
export const stopVm = (vm: Ref) => ask(client.POST("/api/v1/vms/{name}/stop", vmParams(vm)));
export const restartVm = (vm: Ref) => ask(client.POST("/api/v1/vms/{name}/restart", vmParams(vm)));
export const restoreVm = (vm: Ref, body: Sent<"Restore">, etag?: string) =>
  ask(client.POST("/api/v1/vms/{name}/restore", { params: editParams(vm, etag), body: whole<"Restore">(body) }));
export const cancelRestore = (vm: Ref) => ask(client.DELETE("/api/v1/vms/{name}/restore", vmParams(vm)));

/** Whose, in a query. */
const of = (owner: string | undefined) => (owner === undefined ? {} : { owner });

/** Of one VM, or of all that the account has. */
export const listSnapshots = (owner: string | undefined, vm: string | undefined) =>
  all<Snapshot>((query) =>
    ask(client.GET("/api/v1/snapshots", { params: { query: { ...query, ...of(owner), ...(vm === undefined ? {} : { vm }) } } })),
  );
export const createSnapshot = (owner: string | undefined, body: Sent<"NewSnapshot">) =>
  ask(client.POST("/api/v1/snapshots", { params: { query: of(owner), ...once() }, body: whole<"NewSnapshot">(body) }));
export const editSnapshot = (snapshot: Ref, body: Sent<"SnapshotEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/snapshots/{name}", { params: editParams(snapshot, etag), body: whole<"SnapshotEdit">(body) }));
export const deleteSnapshot = (snapshot: Ref) => ask(client.DELETE("/api/v1/snapshots/{name}", vmParams(snapshot)));

export const listVolumes = (owner: string | undefined) =>
  all<Volume>((query) => ask(client.GET("/api/v1/volumes", { params: { query: { ...query, ...of(owner) } } })));
/** Everybody's. */
export const listAllVolumes = () =>
  all<Volume>((query) => ask(client.GET("/api/v1/volumes", { params: { query: { ...query, all: true } } })));
export const createVolume = (owner: string | undefined, body: Sent<"NewVolume">) =>
  ask(client.POST("/api/v1/volumes", { body: whole<"NewVolume">(body), params: { query: of(owner), ...once() } }));
export const editVolume = (volume: Ref, body: Sent<"VolumeEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/volumes/{name}", { params: editParams(volume, etag), body: whole<"VolumeEdit">(body) }));
export const deleteVolume = (volume: Ref) => ask(client.DELETE("/api/v1/volumes/{name}", vmParams(volume)));

export const openConsole = (vm: Ref, kind: ConsoleKind) =>
  ask(client.POST("/api/v1/vms/{name}/console", { ...vmParams(vm), body: { kind } }));

export const listVmSessions = ({ name, owner }: Ref) =>
  all<VmSession>((query) =>
    ask(
      client.GET("/api/v1/vms/{name}/sessions", {
        params: { path: { name }, query: owner === undefined ? query : { ...query, owner } },
      }),
    ),
  );
/** The newest sessions in all VMs. */
export const listAllSessions = (live: boolean, search: string) =>
  ask(
    client.GET("/api/v1/admin/sessions", { params: { query: { live, limit: 200, ...(search ? { search } : {}) } } }),
  );
/** Ends a session: as whoever has the VM in view, or as who has all in view. */
export const endVmSession = ({ name, vm, owner }: VmSession, ofVm: boolean, reason: string | undefined) => {
  const query = reason === undefined ? {} : { reason };
  return ask(
    ofVm
      ? client.DELETE("/api/v1/vms/{name}/sessions/{session}", {
          params: { path: { name: vm, session: name }, query: { ...query, owner } },
        })
      : client.DELETE("/api/v1/admin/sessions/{name}", { params: { path: { name }, query } }),
  );
};
export const getRecording = (session: string, recording: string, signal: AbortSignal) =>
  ask(
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
export const claimOffer = (name: string, body: Sent<"Claim">) =>
  ask(client.POST("/api/v1/offers/{name}/claim", { params: { path: { name }, ...once() }, body: whole<"Claim">(body) }));

export const listAllOffers = () => all<Offer>((query) => ask(client.GET("/api/v1/admin/offers", { params: { query } })));
export const createOffer = (body: Sent<"NewOffer">) => ask(client.POST("/api/v1/admin/offers", { body: whole<"NewOffer">(body), params: once() }));
export const deleteOffer = (name: string) =>
  ask(client.DELETE("/api/v1/admin/offers/{name}", { params: { path: { name } } }));

export const listAllImages = () => all<Image>((query) => ask(client.GET("/api/v1/admin/images", { params: { query } })));
export const listImageTags = (url: string) => ask(client.GET("/api/v1/admin/image-tags", { params: { query: { url } } }));
export const createImage = (body: Sent<"NewImage">) => ask(client.POST("/api/v1/admin/images", { body: whole<"NewImage">(body), params: once() }));
export const editImage = (name: string, body: Sent<"ImageEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/admin/images/{name}", { params: { path: { name }, ...unless(etag) }, body: whole<"ImageEdit">(body) }));
export const deleteImage = (name: string, etag?: string) =>
  ask(client.DELETE("/api/v1/admin/images/{name}", { params: { path: { name }, ...unless(etag) } }));

export const listUsers = () => all<User>((query) => ask(client.GET("/api/v1/admin/users", { params: { query } })));
export const createUser = (body: Sent<"NewUser">) => ask(client.POST("/api/v1/admin/users", { body: whole<"NewUser">(body), params: once() }));
export const editUser = (name: string, body: Sent<"UserEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/admin/users/{name}", { params: { path: { name }, ...unless(etag) }, body: whole<"UserEdit">(body) }));
export const deleteUser = (name: string) =>
  ask(client.DELETE("/api/v1/admin/users/{name}", { params: { path: { name } } }));

export const unlinkUser = (name: string, id: string) =>
  ask(client.DELETE("/api/v1/admin/users/{name}/identities/{id}", { params: { path: { name, id } } }));

export const getCapacity = () => ask(client.GET("/api/v1/admin/capacity"));
export const listInvites = () => all<Invite>((query) => ask(client.GET("/api/v1/admin/invites", { params: { query } })));
export const createInvite = (body: Sent<"NewInvite">) =>
  ask(client.POST("/api/v1/admin/invites", { body: whole<"NewInvite">(body), params: once() }));
export const deleteInvite = (name: string) =>
  ask(client.DELETE("/api/v1/admin/invites/{name}", { params: { path: { name } } }));

export const getPlatform = () => ask(client.GET("/api/v1/admin/platform"));
export const editPlatform = (body: Sent<"PlatformEdit">, etag?: string) =>
  ask(client.PATCH("/api/v1/admin/platform", { params: unless(etag), body: whole<"PlatformEdit">(body) }));
/** Ends all sessions, one's own too, and all API tokens if that is asked for. */
export const signOutEveryone = (tokens: boolean) =>
  ask(client.POST("/api/v1/admin/sign-out-everyone", { body: { tokens } }));
export const getCertificate = () => ask(client.GET("/api/v1/admin/certificate"));
export const putCertificate = (body: Sent<"NewCertificate">) =>
  ask(client.PUT("/api/v1/admin/certificate", { body: whole<"NewCertificate">(body) }));
export const deleteCertificate = () => ask(client.DELETE("/api/v1/admin/certificate"));

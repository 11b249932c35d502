// One client for all requests: it speaks with the session cookie, turns
// refusals into errors, and renews a session that is about to end once.

import createClient from "openapi-fetch";
import { OfflineError, ProblemError } from "./problem";
import { askForProof } from "./proof";
import { haveRefusals } from "../lib/refusals";
import type { paths } from "./schema";
import type { Present } from "./types";

type Listener = () => void;
const signedOut = new Set<Listener>();

/** Calls `listener` when the session turns out to be over. */
export function onSignedOut(listener: Listener): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

export function tellSignedOut(): void {
  for (const listener of signedOut) listener();
}

let refreshing: Promise<boolean> | undefined;

/** Asks for fresh cookies; all requests that wait for them share the answer. */
function refresh(): Promise<boolean> {
  refreshing ??= fetch("/api/v1/auth/refresh", { method: "POST" })
    .then((response) => response.ok)
    .finally(() => {
      refreshing = undefined;
    });
  return refreshing;
}

let renewing: Promise<unknown> = Promise.resolve();

/** Notes a request that ends the session and begins the next: what is refused
 * meanwhile is asked again afterwards. */
export function renews<T>(request: Promise<T>): Promise<T> {
  renewing = request.catch(() => undefined);
  return request;
}

const factorMissing = new Set<Listener>();

/** Calls `listener` when the account turns out to need a second factor. */
export function onFactorMissing(listener: Listener): () => void {
  factorMissing.add(listener);
  return () => factorMissing.delete(listener);
}

async function isRefused(response: Response, status: number, kind: string): Promise<boolean> {
  if (response.status !== status) return false;
  const body = (await response.clone().json().catch(() => null)) as { type?: string } | null;
  return body?.type === `urn:kite:problem:${kind}`;
}

const isSessionOver = (response: Response) => isRefused(response, 401, "unauthenticated");

/** What it means that an answer, or the rest of it, did not come. */
export function brokenOff(error: unknown): unknown {
  return error instanceof DOMException && error.name === "AbortError" ? error : new OfflineError();
}

/** Like fetch, but a session that can be renewed is, and what asks for a proof of who one
 * is goes on once that is given. */
async function fetchInSession(request: Request): Promise<Response> {
  const again = request.clone();
  const response = await fetchRenewed(request);
  if (await isRefused(response, 403, "second-factor-missing")) {
    for (const listener of factorMissing) listener();
  }
  if (!(await isRefused(response, 403, "proof-required")) || !(await askForProof())) return response;
  return fetchRenewed(again);
}

async function fetchRenewed(request: Request): Promise<Response> {
  const again = request.clone();
  let response: Response;
  try {
    response = await fetch(request);
    if (!(await isSessionOver(response))) return response;
    await renewing;
    await refresh();
    response = await fetch(again);
  } catch (error) {
    throw brokenOff(error);
  }
  if (await isSessionOver(response)) tellSignedOut();
  return response;
}

/** Paths and answers are typed as the API's document has them. */
export const client = createClient<paths>({ baseUrl: "/", fetch: fetchInSession });

/** An answer, as the client gives it. */
interface Answer {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/** The body of an answer, as the document has it, or the problem as an error. */
export async function ask<A extends Answer>(answer: Promise<A>): Promise<Present<NonNullable<A["data"]>>> {
  const { data, error, response } = await answer;
  if (!response.ok) {
    await haveRefusals();
    throw ProblemError.of(response, error);
  }
  return data as Present<NonNullable<A["data"]>>;
}

// One client for all requests: it speaks with the session cookie, turns
// refusals into errors, and renews a session that is about to end once.

import createClient from "openapi-fetch";
import { OfflineError, ProblemError } from "./problem";

const BASE = "/api/v1";

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
  refreshing ??= fetch(`${BASE}/auth/refresh`, { method: "POST" })
    .then((response) => response.ok)
    .finally(() => {
      refreshing = undefined;
    });
  return refreshing;
}

async function isSessionOver(response: Response): Promise<boolean> {
  if (response.status !== 401) return false;
  const body = (await response.clone().json().catch(() => null)) as { type?: string } | null;
  return body?.type === "urn:kite:problem:unauthenticated";
}

/** Like fetch, but a session that can be renewed is. */
async function fetchInSession(request: Request): Promise<Response> {
  const again = request.clone();
  let response: Response;
  try {
    response = await fetch(request);
    if (!(await isSessionOver(response))) return response;
    if (await refresh()) response = await fetch(again);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new OfflineError();
  }
  if (await isSessionOver(response)) tellSignedOut();
  return response;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export const client: any = createClient<any>({ baseUrl: BASE, fetch: fetchInSession });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer, or the problem as an error. */
export async function ask<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw await ProblemError.of(response, error);
  return data as T;
}

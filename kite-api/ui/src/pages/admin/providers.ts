// The list of sign-in providers: it is edited as a whole.

import * as calls from "../../api/calls";
import { keys, queries } from "../../api/queries";
import type { Platform, SignInProvider } from "../../api/types";

export const providersOf = (platform: Platform): SignInProvider[] => platform.signInProviders ?? [];

/** What people call it. */
export const titleOf = ({ name, displayName }: SignInProvider): string => displayName ?? name;

/** Writes the list if nobody has edited the platform since. */
export async function saveProviders(platform: Platform, providers: SignInProvider[]): Promise<void> {
  const body = { signInProviders: providers.length > 0 ? providers : null };
  queries.setQueryData(keys.platform, await calls.editPlatform(body, platform.etag));
  await Promise.all([keys.config, keys.identities].map((queryKey) => queries.invalidateQueries({ queryKey })));
}

/** Where the provider sends browsers back to: what has to be registered there. The API
 * takes the address by which somebody comes if it is one of its own, or else its first. */
export function redirectUris(platform: Platform, name: string): string[] {
  const url = platform.status.url?.replace(/\/+$/, "");
  const origins = new Set(url === undefined ? [window.location.origin] : [url, window.location.origin]);
  return [...origins].map((origin) => `${origin}/api/v1/auth/oidc/${encodeURIComponent(name)}/callback`);
}

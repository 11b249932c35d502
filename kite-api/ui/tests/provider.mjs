// Signing in at a real OpenID Connect provider: the npm package oidc-provider,
// which is in the directory that KITE_NODE_MODULES names.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { KITE_API, PASSWORD, accessible, api, button, fill, heading, marked, says, scene, tokenOf } from "./world.mjs";

const { KITE_NODE_MODULES = "node_modules", KITE_REQUIRE_CLIENTS } = process.env;
const entry = join(KITE_NODE_MODULES, "oidc-provider", "lib", "index.js");

/** Who is in which groups there. */
const groups = { "carol.lee": ["staff"], dora: ["others"], erin: ["staff"] };

/** A provider that knows everybody, and asks for no right password. */
async function serve(Provider) {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "kite",
        token_endpoint_auth_method: "none",
        redirect_uris: [`${KITE_API}/api/v1/auth/oidc/staff/callback`],
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"], email: ["email", "email_verified"] },
    cookies: { keys: ["for the tests alone"] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        preferred_username: id,
        groups: groups[id] ?? [],
        email: `${id}@corp.example`,
        email_verified: true,
      }),
    }),
  });
  server.on("request", provider.callback());
  return { issuer, close: () => new Promise((done) => server.close(done).closeAllConnections()) };
}

/** Logs in at the provider's own pages. */
async function logIn(page, who) {
  await page.locator("input[name=login]").fill(who);
  await page.locator("input[name=password]").fill("anything");
  await page.locator("button[type=submit]").click();
  await page.getByRole("button", { name: "Continue" }).click();
}

const nameOf = (page) => page.evaluate(async () => (await (await fetch("/api/v1/me")).json()).username);
const levelOf = (page) => page.evaluate(async () => (await (await fetch("/api/v1/me")).json()).accessLevel);

async function people_sign_in_at_a_provider(provider) {
  const root = await tokenOf("ann");
  const one = {
    name: "staff",
    displayName: "Corp login",
    issuer: provider.issuer,
    clientId: "kite",
    scopes: ["profile", "email", "groups"],
    signUp: true,
    allowedGroups: ["staff", "admins"],
    accessLevels: [{ group: "admins", accessLevel: "Manager" }],
  };
  await api("PATCH", "/admin/platform", root, { signInProviders: [one] });

  await scene({}, async (page) => {
    await page.goto("/account");
    await heading(page, "Sign in");
    await accessible(page, "sign-in with a provider");
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await logIn(page, "carol.lee");
    // Where they wanted to be.
    await heading(page, "Account");
    assert.equal(await nameOf(page), "carol-lee");
    assert.equal(await levelOf(page), "User");
    await says(page, "carol.lee");
    await accessible(page, "account with a provider");
    await page.reload();
    await heading(page, "Account");
    // The only way in is not given up.
    await button(page, "Unlink Corp login").click();
    await page.getByRole("dialog").getByText("You have signed in with it").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
    await says(page, /only way to sign in/);
    await page.keyboard.press("Escape");
    await button(page, "Sign out").click();
    await says(page, "You are signed out.");
    // The provider knows them still; their groups are others by now.
    groups["carol.lee"] = ["admins"];
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await heading(page, "Virtual machines");
    assert.equal(await levelOf(page), "Manager");
  });

  await scene({}, async (page) => {
    await page.goto("/sign-in");
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await logIn(page, "dora");
    await says(page, "You are in none of the groups at Corp login that may use this platform.");
    await accessible(page, "a provider's refusal");
  });

  await scene({}, async (page) => {
    await page.goto("/sign-in");
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await says(page, "You were not let in by Corp login");
    // It is told once.
    await page.reload();
    await heading(page, "Sign in");
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  // A link of somebody's that leads elsewhere.
  await scene({}, async (page) => {
    await page.goto("/api/v1/auth/oidc/staff?returnTo=https://kite.test");
    await heading(page, "Sign in");
    await says(page, "leads to no page of this platform");
    await fill(page, "Username", "bob");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "Virtual machines");
    assert.equal(await page.getByRole("alert").count(), 0);
    assert.equal(new URL(page.url()).search, "");
  });
}

async function an_administrator_sees_who_accounts_are_and_unlinks_them() {
  const root = await tokenOf("ann");
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/users");
    await button(page, "Edit carol-lee").click();
    const dialog = page.getByRole("dialog", { name: "User carol-lee" });
    const row = dialog.getByRole("list", { name: "At sign-in providers" }).getByRole("listitem");
    await row.getByText("Corp login").waitFor();
    await row.getByText("carol.lee").waitFor();
    await accessible(page, "an account that is linked");
    const unlink = async () => {
      await dialog.getByRole("button", { name: "Unlink Corp login" }).click();
      const confirm = page.getByRole("dialog", { name: "Unlink Corp login" });
      await confirm.getByText("Whoever is carol.lee at Corp login").waitFor();
      await confirm.getByRole("button", { name: "Unlink" }).click();
      return confirm;
    };
    const confirm = await unlink();
    await confirm.getByRole("alert").getByText("only way to sign in").waitFor();
    await page.keyboard.press("Escape");
    await confirm.waitFor({ state: "detached" });
    await api("PATCH", "/admin/users/carol-lee", root, { password: PASSWORD });
    await unlink();
    await says(page, "It is unlinked");
    await row.waitFor({ state: "detached" });
  });
  assert.deepEqual((await api("GET", "/admin/users/carol-lee", root)).identities, []);
}

async function who_is_signed_in_hears_that_linking_failed() {
  const told = async (page, text) => {
    await heading(page, "Account");
    await page.getByRole("alert").getByText(text).waitFor();
    assert.equal(new URL(page.url()).search, "");
  };
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await button(page, "Link Corp login").click();
    await page.getByRole("dialog").getByLabel("Password", { exact: true }).fill(PASSWORD);
    await button(page, "Go on to Corp login").click();
    await page.getByRole("link", { name: "Cancel" }).click();
    await told(page, "You were not let in by Corp login");
    await accessible(page, "a link that failed");
    // A way back that this browser has not begun, or too long ago: it is not known
    // that it was one of linking.
    await page.goto("/api/v1/auth/oidc/staff/callback?state=none&code=none");
    await told(page, "took too long");
    await page.getByRole("alert").getByRole("button", { name: "Close" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.goto("/api/v1/auth/oidc/staff/callback?state=none&code=none");
    await told(page, "took too long");
    await page.getByRole("link", { name: "Virtual machines" }).click();
    await heading(page, "Virtual machines");
    assert.equal(await page.getByRole("alert").count(), 0);
  });
}

async function an_account_is_linked_with_a_provider() {
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await button(page, "Link Corp login").click();
    await page.getByRole("dialog").getByLabel("Password", { exact: true }).fill("not it, surely");
    await button(page, "Go on to Corp login").click();
    await marked(page.getByRole("dialog"), "password");
    await page.getByRole("dialog").getByLabel("Password", { exact: true }).fill(PASSWORD);
    await accessible(page, "linking");
    await button(page, "Go on to Corp login").click();
    await logIn(page, "erin");
    await heading(page, "Account");
    await button(page, "Unlink Corp login").waitFor();
    await button(page, "Sign out").click();
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await heading(page, "Virtual machines");
    assert.equal(await nameOf(page), "bob");
    await page.goto("/account");
    // What one has come in by lets one out.
    await button(page, "Unlink Corp login").click();
    await page.getByRole("dialog").getByText("you are signed out").waitFor();
    await accessible(page, "unlinking");
    await page.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
    await heading(page, "Sign in");
    await fill(page, "Username", "bob");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "Account");
    await button(page, "Link Corp login").waitFor();
  });
}

async function a_provider_that_is_gone_is_told_of() {
  const root = await tokenOf("ann");
  const gone = { name: "staff", displayName: "Corp login", issuer: "http://127.0.0.1:9", clientId: "kite" };
  await api("PATCH", "/admin/platform", root, { signInProviders: [gone] });
  await scene({}, async (page) => {
    await page.goto("/sign-in");
    await page.getByRole("link", { name: "Sign in with Corp login" }).click();
    await says(page, "There is no answer from Corp login.");
    // The password is a way in all the same.
    await fill(page, "Username", "bob");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await heading(page, "Virtual machines");
  });
  await api("PATCH", "/admin/platform", root, { signInProviders: null });
}

async function with_a_real_provider(play) {
  const { Provider } = await import(pathToFileURL(entry).href);
  const provider = await serve(Provider);
  try {
    await play(provider);
  } finally {
    await provider.close();
  }
}

const signing_in_at_a_provider = async () => {
  if (!existsSync(entry)) {
    assert.ok(!KITE_REQUIRE_CLIENTS, `KITE_REQUIRE_CLIENTS is set: oidc-provider is not at ${entry}`);
    console.log(`SKIPPED: oidc-provider is not at ${entry}: npm install it and set KITE_NODE_MODULES`);
    return;
  }
  await with_a_real_provider(async (provider) => {
    await people_sign_in_at_a_provider(provider);
    await an_administrator_sees_who_accounts_are_and_unlinks_them();
    await who_is_signed_in_hears_that_linking_failed();
    await an_account_is_linked_with_a_provider();
  });
  await a_provider_that_is_gone_is_told_of();
};

export default { signing_in_at_a_provider };

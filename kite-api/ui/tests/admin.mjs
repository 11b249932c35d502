import { KITE_API, PASSWORD, accessible, api, button, confirm, fill, heading, kubernetes, says, scene, tokenOf } from "./world.mjs";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const an_administrator_looks_after_users = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/users");
    await button(page, "New user").click();
    let dialog = page.getByRole("dialog");
    await dialog.getByLabel("Username", { exact: true }).fill("carl");
    await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await dialog.getByRole("button", { name: "Create user" }).click();
    await says(page, "carl can sign in now.");

    await button(page, "Edit carl").click();
    dialog = page.getByRole("dialog", { name: "User carl" });
    await dialog.getByRole("button", { name: /Access level/ }).click();
    await page.getByRole("option", { name: "Manager" }).click();
    await dialog.getByLabel("VMs", { exact: true }).fill("7");
    await dialog.getByRole("button", { name: "Save" }).click();
    await says(page, "Saved.");
    await page.getByRole("row", { name: /carl/ }).getByText("Manager").waitFor();
    await page.getByRole("row", { name: /carl/ }).getByText("0 of 7").waitFor();

    await button(page, "Edit carl").click();
    await dialog.getByRole("button", { name: "Suspend" }).click();
    const question = page.getByRole("dialog", { name: "Suspend carl?" });
    await question.getByText("all their VMs are switched off").waitFor();
    await accessible(page, "the question before a suspension");
    await question.getByRole("button", { name: "Cancel" }).click();
    await dialog.getByRole("button", { name: "Suspend" }).waitFor();
    assert.equal((await api("GET", "/admin/users/carl", await tokenOf("ann"))).suspended, false);
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await confirm(page, "Suspend carl?", "Suspend and switch off VMs");
    await dialog.getByRole("button", { name: "Let in again" }).waitFor();
    await dialog.getByRole("button", { name: "Delete this user…" }).click();
    const last = page.getByRole("dialog", { name: "Delete carl?" });
    await last.getByLabel("Type carl to confirm").fill("carl");
    await last.getByRole("button", { name: "Delete user and VMs" }).click();
    await says(page, "carl is being deleted.");
    await page.getByRole("row", { name: /carl/ }).waitFor({ state: "detached" });
  });

const an_administrator_sees_everything = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin");
    await heading(page, "Overview");
    await says(page, "VMs by state");
    await page.goto("/admin/vms");
    await page.getByRole("link", { name: "hello" }).waitFor();
    await page.getByRole("searchbox").fill("nothing like it");
    await says(page, "Nothing is called");
    await page.getByRole("searchbox").fill("demo");
    await page.getByRole("link", { name: "hello" }).click();
    await heading(page, "hello");
    await says(page, "belongs to demo");
    await page.goto("/admin/images");
    await says(page, "Debian 12");
    await page.goto("/admin/platform");
    await heading(page, "Platform");
  });

const invited_people_sign_up_by_a_link = () =>
  scene({ user: "ann" }, async (page) => {
    const token = await tokenOf("ann");
    await api("PATCH", "/admin/platform", token, { signUp: "Invite" });
    try {
      await page.goto("/admin/invites");
      await says(page, "No invites yet");
      await button(page, "New invite").click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("For whom or what (optional)", { exact: true }).fill("Dora");
      await dialog.getByLabel("Email (optional)", { exact: true }).fill("nobody");
      await dialog.getByText("Say how much the account may use").click();
      await dialog.getByLabel("VMs", { exact: true }).fill("2");
      await dialog.getByRole("button", { name: "Create invite" }).click();
      await dialog.getByText("Must be an address").waitFor();
      await dialog.getByLabel("Email (optional)", { exact: true }).fill("dora@kite.test");
      await dialog.getByRole("button", { name: "Create invite" }).click();
      await dialog.getByText("It is shown only now").waitFor();
      await dialog.getByRole("button", { name: "Copy the link" }).click();
      const link = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(link, /\/sign-up#invite=kite_invite_[\w-]{64}$/);
      await dialog.getByRole("button", { name: "Done" }).click();
      const row = page.getByRole("row", { name: /Dora/ });
      await row.getByText("Open").waitFor();
      await row.getByText("in 7 days").waitFor();
      await row.getByRole("button", { name: "Withdraw the invite for Dora" }).waitFor();
      assert.ok(!(await page.content()).includes("kite_invite_"));

      // Who is signed in is told so, and may sign out to use it.
      await scene({ user: "bob" }, async (page) => {
        await page.goto(link);
        await says(page, "You are signed in as bob.");
        await accessible(page, "an invite for who is signed in");
        await button(page, "Sign out and use the invite").click();
        await page.getByLabel("Username", { exact: true }).waitFor();
        assert.match(await page.getByLabel("Invite", { exact: true }).inputValue(), /^kite_invite_/);
      });
      await signUpBy(link, async (page) => {
        await fill(page, "Username", "dora");
        await fill(page, "Password", PASSWORD);
        await button(page, "Create account").click();
        await says(page, "Is missing: the invite is for one address");
        await fill(page, "Email", "dora@kite.test");
        await button(page, "Create account").click();
        await heading(page, "Virtual machines");
        assert.ok(!page.url().includes("invite"));
      });
      await row.getByText("Used", { exact: true }).waitFor();
      // Who used it and when, and nothing of what it could still be used for.
      await row.getByText(/^dora (now|[0-9]+ seconds? ago)$/).waitFor();
      assert.equal(await row.getByText("in 7 days").count(), 0);
      assert.equal(await row.getByRole("button", { name: /Withdraw/ }).count(), 0);
      await signUpBy(link, async (page) => {
        await fill(page, "Username", "eve");
        await fill(page, "Password", PASSWORD);
        await button(page, "Create account").click();
        await says(page, "Was used: if that was you, sign in");
      });

      await row.getByRole("button", { name: "Remove the invite for Dora" }).click();
      await page.getByRole("dialog").getByText("The account that was made with it stays").waitFor();
      await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
      await says(page, "The invite for Dora is gone.");
      await row.waitFor({ state: "detached" });
    } finally {
      await api("PATCH", "/admin/platform", token, { signUp: "Open" });
    }
  });

/** Somebody else's browser, at the page that a link leads to. */
async function signUpBy(link, play) {
  const { hash, pathname } = new URL(link);
  await scene({}, async (page) => {
    await page.goto(pathname + hash);
    await heading(page, "Create an account");
    await play(page);
  });
}

/** A certificate that signed itself for the demo's domain, and its key. */
const pem = (name) => readFileSync(new URL(name, import.meta.url), "utf8");

const a_certificate_is_put_in_and_taken_away = () =>
  scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/platform");
    await says(page, "The ingress controller brings its own.");
    await button(page, "Put in a certificate").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Certificate (PEM)", { exact: true }).fill(pem("./demo-key.pem"));
    await dialog.getByLabel("Private key (PEM)", { exact: true }).fill("not a key");
    await dialog.getByRole("button", { name: "Put in a certificate" }).click();
    await dialog.getByText("Holds a private key").waitFor();
    await dialog.getByLabel("Certificate (PEM)", { exact: true }).fill(pem("./demo-certificate.pem"));
    await dialog.getByRole("button", { name: "Put in a certificate" }).click();
    await dialog.getByText("Is no private key in PEM").waitFor();
    await accessible(page, "putting in a certificate");
    await dialog.getByLabel("Private key (PEM)", { exact: true }).fill(pem("./demo-key.pem"));
    await dialog.getByRole("button", { name: "Put in a certificate" }).click();
    await says(page, "It was put in here.");
    await says(page, "vm.kite.test, *.vm.kite.test");
    await dialog.waitFor({ state: "detached" });
    assert.ok(!(await page.content()).includes("PRIVATE KEY"));
    // Without what was just read out to those who listen.
    await page.reload();
    await says(page, "vm.kite.test, *.vm.kite.test");
    await accessible(page, "a certificate");
    await button(page, "Take it away").click();
    await dialog.getByRole("button", { name: "Take it away" }).click();
    await says(page, "The ingress controller brings its own.");
  });

const settings_that_name_what_is_not_there_are_told_of = () =>
  scene({ user: "ann" }, async (page) => {
    const told = page.getByText("Settings name what is not in the cluster.", { exact: false });
    let isThere = false;
    await page.route("**/api/v1/admin/platform", async (route) => {
      const response = await route.fetch();
      const platform = await response.json();
      const others = (platform.status.conditions ?? []).filter(({ type }) => type !== "ResolvedRefs");
      const message = [
        "spec.storageClass names StorageClass gold, which is not there: create it, or name another (kubectl edit kiteplatform default)",
        "spec.imageNamespace names Namespace golden, which is not there: create it, or name another (kubectl edit kiteplatform default)",
      ].join("; ");
      const missing = { type: "ResolvedRefs", status: "False", reason: "RefNotFound", message, lastTransitionTime: new Date().toISOString() };
      await route.fulfill({ response, json: { ...platform, status: { ...platform.status, conditions: isThere ? others : [...others, missing] } } });
    });
    await page.goto("/admin/platform");
    await told.waitFor();
    const items = page.locator(".notice li");
    assert.equal(await items.count(), 2);
    assert.match(await items.first().innerText(), /^spec\.storageClass names StorageClass gold/);
    await accessible(page, "settings that name what is not there");
    isThere = true;
    await page.reload();
    await says(page, "Base domain");
    await told.waitFor({ state: "detached" });
  });

const who_takes_the_certificate_from_vms_is_warned = () =>
  scene({ user: "ann" }, async (page) => {
    // These are for administrators of the cluster.
    const set = (certificate) => kubernetes("PATCH", "/kiteplatforms/default", { spec: { exposure: { certificate } } });
    const dialog = page.getByRole("dialog");
    const opened = async () => {
      await page.goto("/admin/platform");
      await button(page, "Put in a certificate").click();
      await dialog.getByLabel("Private key (PEM)", { exact: true }).waitFor();
    };
    try {
      await set({ clusterIssuer: "letsencrypt" });
      await opened();
      await dialog.getByText("VMs' domains have their certificates from the ClusterIssuer letsencrypt, too.").waitFor();
      await accessible(page, "the warning of a certificate");
      await set({ clusterIssuer: null, secretName: "wildcard" });
      await opened();
      await dialog.getByText("VMs' domains have the certificate of the Secret wildcard, too.").waitFor();
    } finally {
      await set({ clusterIssuer: null, secretName: null });
    }
    await opened();
    assert.equal(await dialog.getByText("VMs' domains").count(), 0);
  });

const sign_in_providers_are_added_edited_and_removed = () =>
  scene({ user: "ann" }, async (page) => {
    const token = await tokenOf("ann");
    const stored = async () => (await api("GET", "/admin/platform", token)).signInProviders;
    const dialog = page.getByRole("dialog");
    const field = (label) => dialog.getByLabel(label, { exact: true });
    const save = () => dialog.getByRole("button", { name: "Save" }).click();
    const invalid = (name) => dialog.locator(`[name='${name}'][aria-invalid=true]`).waitFor();
    await page.goto("/admin/platform");
    await says(page, "None yet: people sign in with a password.");
    await button(page, "Add a provider").click();
    await field("Name").fill("staff");
    // Where this browser is, and where the platform says that it is.
    const uris = dialog.getByText("/api/v1/auth/oidc/staff/callback");
    await uris.first().waitFor();
    assert.ok((await uris.allInnerTexts()).includes(`${KITE_API}/api/v1/auth/oidc/staff/callback`));
    await field("Issuer").fill("login.example.org");
    await field("Key of the client secret").fill("staff");
    await dialog.getByText('--from-literal=staff="$CLIENT_SECRET"').waitFor();
    await dialog.getByRole("button", { name: "Add a group" }).click();
    await field("Group").fill("vm-admins");
    await dialog.getByRole("button", { name: /Access level/ }).click();
    await page.getByRole("option", { name: "Administrator" }).click();
    await dialog.getByRole("button", { name: "Add a group" }).click();
    await save();
    // What the API says stands at the fields, the first of which has the focus.
    await dialog.getByText("Must be a URL such as").waitFor();
    await dialog.getByText("Fill this in.").waitFor();
    await invalid("accessLevels[1].group");
    await page.waitForFunction(() => document.activeElement?.getAttribute("name") === "issuer");
    await accessible(page, "a sign-in provider");
    await field("Issuer").fill("https://login.example.org/realms/staff");
    await field("Client ID").fill("kite");
    await field("Scopes").fill("profile  groups");
    await dialog.getByRole("button", { name: "Remove group 2" }).press("Enter");
    await save();
    await says(page, "Saved.");
    const staff = {
      name: "staff",
      issuer: "https://login.example.org/realms/staff",
      clientId: "kite",
      clientSecretKey: "staff",
      scopes: ["profile", "groups"],
      usernameClaim: "preferred_username",
      groupsClaim: "groups",
      accessLevels: [{ group: "vm-admins", accessLevel: "Admin" }],
      signUp: false,
    };
    assert.deepEqual(await stored(), [staff]);

    await button(page, "Add a provider").click();
    await field("Name").fill("staff");
    await save();
    await dialog.getByText("Another provider has this name.").waitFor();
    await page.keyboard.press("Escape");

    await button(page, "Edit staff").click();
    await field("Name on the button").fill("Example Staff");
    await field("Groups that may sign in").fill("vm-users\nvm-admins");
    await dialog.getByText("Whoever signs in gets an account").click();
    await field("Scopes").fill("");
    // Somebody else is faster.
    const other = { name: "other", issuer: "https://other.example.org", clientId: "kite" };
    await api("PATCH", "/admin/platform", token, { signInProviders: [other, staff] });
    await save();
    await dialog.getByText("Somebody changed this while you were here.").waitFor();
    await dialog.getByRole("button", { name: "Show what it is now" }).click();
    await field("Name on the button").fill("Example Staff");
    await field("Groups that may sign in").fill("vm-users\nvm-admins");
    await dialog.getByText("Whoever signs in gets an account").click();
    await field("Scopes").fill("");
    await save();
    await page.getByRole("listitem").getByText("Example Staff").waitFor();
    const { scopes: _scopes, ...rest } = staff;
    const edited = { ...rest, displayName: "Example Staff", allowedGroups: ["vm-users", "vm-admins"], signUp: true };
    assert.deepEqual((await stored())[1], edited);

    await button(page, "Remove Example Staff").click();
    await dialog.getByLabel("Type staff to confirm").fill("other");
    await dialog.getByRole("button", { name: "Remove", exact: true }).click();
    await dialog.getByText("That is not staff").waitFor();
    await dialog.getByLabel("Type staff to confirm").fill("staff");
    await dialog.getByRole("button", { name: "Remove", exact: true }).click();
    await says(page, "staff is removed.");
    await button(page, "Edit other").waitFor();
    assert.deepEqual((await stored()).map(({ name }) => name), ["other"]);
    await api("PATCH", "/admin/platform", token, { signInProviders: null });
  });

export default {
  a_certificate_is_put_in_and_taken_away,
  settings_that_name_what_is_not_there_are_told_of,
  who_takes_the_certificate_from_vms_is_warned,
  sign_in_providers_are_added_edited_and_removed,
  invited_people_sign_up_by_a_link,
  an_administrator_looks_after_users,
  an_administrator_sees_everything,
};

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { KITE_API, PASSWORD, SIZE, accessible, api, button, confirm, fill, heading, marked, says, scene, tokenOf } from "./world.mjs";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPiqyTxtME/fP/AjvyYbmGxAINhZ4sLF0vR2kkzvYbEg bob";

const somebody_looks_after_their_account = async () => {
  await tokenOf("bob");
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await fill(page, "Email (optional)", "no address");
    await fill(page, "SSH public keys", KEY);
    await button(page, "Save").click();
    await page.locator("input[name=email][aria-invalid=true]").waitFor();
    await fill(page, "Email (optional)", "bob@example.org");
    await button(page, "Save").click();
    await says(page, "Saved.");
    await page.reload();
    await page.locator("textarea", { hasText: "ssh-ed25519" }).waitFor();

    await says(page, /^This one · signed in (now|[0-9]+ (second|minute)s? ago) · ends in [0-9]+ hours$/);
    await button(page, "End all others").click();
    await page.getByText("You are signed out everywhere but in this browser").waitFor();
    await confirm(page, "End all other sessions?", "End all others");
    await says(page, "All other sessions are over.");
    await button(page, "End all others").waitFor({ state: "detached" });

    await fill(page, "Current password", "not it, surely");
    await fill(page, "New password", `${PASSWORD} two`);
    await button(page, "Change password").click();
    await marked(page, "currentPassword");
    await fill(page, "Current password", PASSWORD);
    await button(page, "Change password").click();
    await says(page, "The password is changed");
    await putAway(page, "The password is changed");
    await fill(page, "Current password", `${PASSWORD} two`);
    await fill(page, "New password", PASSWORD);
    await button(page, "Change password").click();
    await says(page, "The password is changed");
  });
};

/** Closes a remark, so that it is seen whether the same is said again. */
const putAway = async (page, text) => {
  const remark = page.locator(".toast", { hasText: text });
  await remark.getByRole("button", { name: "Close" }).click();
  await remark.waitFor({ state: "detached" });
};

/** What an authenticator app shows now (RFC 6238), for a secret in base32. */
export function codeOf(secret, at = Date.now()) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const digest = createHmac("sha1", key).update(counter).digest();
  const number = digest.readUInt32BE(digest[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

const a_second_factor_is_set_up_asked_for_and_taken_away = async () => {
  let codes;
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await button(page, "Set up").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Password", { exact: true }).fill("not it, surely");
    await dialog.getByRole("button", { name: "Go on" }).click();
    await page.locator("input[name=password][aria-invalid=true], [role=alert]").first().waitFor();
    await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await dialog.getByRole("button", { name: "Go on" }).click();
    await dialog.getByRole("img", { name: "QR code with the secret" }).waitFor();
    const secret = await dialog.locator("code").innerText();
    await fill(page, "Code", "000000");
    await button(page, "Turn on").click();
    await page.locator("input[name=code][aria-invalid=true]").waitFor();
    await fill(page, "Code", codeOf(secret));
    await button(page, "Turn on").click();
    await says(page, "Keep these recovery codes");
    codes = (await dialog.locator("code").innerText()).split(" ");
    assert.equal(codes.length, 10);
    await button(page, "Done").click();
    await says(page, "Recovery codes left: 10.");
  });
  await scene({}, async (page) => {
    const signIn = async (code) => {
      await fill(page, "Code", code);
      await button(page, "Sign in").click();
    };
    await page.goto("/");
    await fill(page, "Username", "bob");
    await fill(page, "Password", PASSWORD);
    await button(page, "Sign in").click();
    await signIn("123456");
    await page.locator("input[name=code][aria-invalid=true]").waitFor();
    await signIn(codes[0]);
    await page.getByRole("heading", { level: 1, name: "Virtual machines" }).waitFor();
    await page.goto("/account");
    await says(page, "Recovery codes left: 9.");
    await button(page, "Turn off").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Code", { exact: true }).fill("000000");
    await dialog.getByLabel("Password", { exact: true }).fill("not it, surely");
    await dialog.getByRole("button", { name: "Turn off" }).click();
    await page.locator("input[name=password][aria-invalid=true], [role=alert]").first().waitFor();
    await dialog.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await dialog.getByRole("button", { name: "Turn off" }).click();
    await page.locator("input[name=code][aria-invalid=true]").waitFor();
    await dialog.getByLabel("Code", { exact: true }).fill(codes[1]);
    await dialog.getByRole("button", { name: "Turn off" }).click();
    await says(page, "Signing in takes only your password.");
  });
};

const an_access_token_does_what_it_may_until_it_is_deleted = () =>
  scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    await button(page, "New token").click();
    const dialog = page.getByRole("dialog");
    await fill(page, "Name", "backup-script");
    assert.equal(await dialog.getByRole("checkbox", { name: "admin" }).count(), 0);
    await dialog.getByText("see the account and its quota").click();
    await button(page, "Create token").click();
    await says(page, "it is shown only once");
    const token = await dialog.locator("code").innerText();
    assert.match(token, /^kite_pat_/);
    await button(page, "Done").click();
    await says(page, "account:read, vms:read");

    assert.equal((await api("GET", "/me", token)).name, "bob");
    await api("GET", "/vms", token);
    const asked = (path, method) =>
      fetch(`${KITE_API}/api/v1${path}`, { method, headers: { authorization: `Bearer ${token}` } });
    assert.equal((await asked("/me/sessions", "DELETE")).status, 403);
    await button(page, "Delete the token backup-script").click();
    const question = page.getByRole("dialog", { name: "Delete the token backup-script?" });
    await accessible(page, "the question before a token is deleted");
    await question.getByRole("button", { name: "Delete token" }).click();
    await question.getByText("That is not backup-script").waitFor();
    await api("GET", "/vms", token);
    await question.getByLabel("Type backup-script to confirm").fill("backup-script");
    await question.getByRole("button", { name: "Delete token" }).click();
    await says(page, "The token backup-script does not work any more.");
    assert.equal((await asked("/me", "GET")).status, 401);
  });

/** Whether the API takes this token. */
const isGood = async (token) => (await fetch(`${KITE_API}/api/v1/me`, { headers: { authorization: `Bearer ${token}` } })).ok;
const newToken = async (name, session) => (await api("POST", "/me/tokens", session, { name, scopes: ["account:read"] })).token;

const another_password_ends_access_tokens_unless_they_are_kept = () =>
  scene({ user: "bob" }, async (page) => {
    const token = await newToken("known-to-others", await tokenOf("bob"));
    const next = `${PASSWORD} three`;
    await page.goto("/account");
    await button(page, "Delete the token known-to-others").waitFor();
    const change = async (before, after) => {
      await fill(page, "Current password", before);
      await fill(page, "New password", after);
      await button(page, "Change password").click();
    };
    await page.getByText("Keep access tokens").click();
    await change(PASSWORD, next);
    await says(page, "and all other sessions are over. Access tokens go on.");
    assert.ok(await isGood(token));
    // It is asked for anew each time.
    await page.waitForFunction(() => document.querySelector("[name=keepTokens]")?.checked === false);
    await change(next, PASSWORD);
    await says(page, "and all other sessions and all access tokens are over.");
    assert.ok(!(await isGood(token)));
    await button(page, "Delete the token known-to-others").waitFor({ state: "detached" });
  });

const vms_that_were_opened_since_the_password_before_are_shown = async () => {
  await api("POST", "/vms", await tokenOf("bob"), { name: "opened", ...SIZE, sshPassword: PASSWORD });
  await scene({ user: "bob" }, async (page) => {
    await page.goto("/account");
    const change = async (before, after) => {
      await fill(page, "Current password", before);
      await fill(page, "New password", after);
      await button(page, "Change password").click();
    };
    await change(PASSWORD, `${PASSWORD} four`);
    const remark = page.getByRole("status").filter({ hasText: "These VMs got keys or a password of their own" });
    const vm = remark.getByRole("link", { name: "opened" });
    await vm.waitFor();
    // The others are named nowhere else.
    assert.equal(await vm.getAttribute("target"), "_blank");
    assert.match(await vm.getAttribute("href"), /\/vms\/opened\?tab=settings/);
    await accessible(page, "VMs that were opened since the password before");
    await change(`${PASSWORD} four`, PASSWORD);
    await vm.waitFor({ state: "detached" });
  });
  await api("DELETE", "/vms/opened", await tokenOf("bob"));
};

const an_administrator_helps_who_has_lost_what_they_sign_in_with = async () => {
  const bob = await tokenOf("bob");
  const { secret } = await api("POST", "/me/totp", bob, { password: PASSWORD });
  await api("POST", "/me/totp/confirm", bob, { code: codeOf(secret) });
  const token = await newToken("lost-laptop", bob);
  await scene({ user: "ann" }, async (page) => {
    await page.goto("/admin/users");
    await button(page, "Edit bob").click();
    const dialog = page.getByRole("dialog", { name: "User bob" });
    const factor = async () => (await api("GET", "/me/totp", bob)).enabled;
    await dialog.getByRole("button", { name: "Remove second factor…" }).click();
    const question = page.getByRole("dialog", { name: "Remove the second factor of bob?" });
    await question.getByText("Make sure that it is bob who asks for it").waitFor();
    await accessible(page, "the question before a second factor is removed");
    await question.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await factor(), true);
    await dialog.getByRole("button", { name: "Remove second factor…" }).click();
    await confirm(page, "Remove the second factor of bob?", "Remove second factor");
    await says(page, "bob signs in without a code now.");
    assert.equal(await factor(), false);
    await tokenOf("bob");

    await dialog.getByRole("button", { name: "End all access tokens…" }).click();
    const last = page.getByRole("dialog", { name: "End all access tokens of bob?" });
    await last.getByRole("button", { name: "End access tokens" }).click();
    await last.getByText("That is not bob").waitFor();
    assert.ok(await isGood(token));
    await last.getByLabel("Type bob to confirm").fill("bob");
    await last.getByRole("button", { name: "End access tokens" }).click();
    await says(page, "All access tokens of bob are over.");
    assert.ok(!(await isGood(token)));

    const keys = async () => (await api("GET", "/me", bob)).sshPublicKeys;
    await dialog.getByLabel("SSH public keys").fill("no key");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.locator("[name=sshPublicKeys][aria-invalid=true]").waitFor();
    await dialog.getByLabel("SSH public keys").fill(`${KEY}-by-ann`);
    await dialog.getByRole("button", { name: "Save" }).click();
    await says(page, "Saved.");
    assert.deepEqual(await keys(), [`${KEY}-by-ann`]);
    // Nobody does so to themselves here: there are the account page's own ways.
    await button(page, "Edit ann").click();
    await page.getByRole("dialog", { name: "User ann" }).getByLabel("Email").waitFor();
    assert.equal(await page.getByRole("button", { name: "Remove second factor…" }).count(), 0);
  });
};

const an_administrator_signs_everybody_out = async () => {
  const [ann, bob] = [await tokenOf("ann"), await tokenOf("bob")];
  const token = await newToken("script", bob);
  for (const tokens of [false, true]) {
    await scene({ user: "bob" }, async (there) => {
      await there.goto("/");
      await heading(there, "Virtual machines");
      await scene({ user: "ann" }, async (page) => {
        // The answer comes after the news of what it did.
        await page.route("**/api/v1/admin/sign-out-everyone", async (route) => {
          const answer = await route.fetch();
          if (answer.ok()) await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
          await route.fulfill({ response: answer });
        });
        await page.goto("/admin/platform");
        await button(page, "Sign everybody out…").click();
        const question = page.getByRole("dialog", { name: "Sign everybody out?" });
        await question.getByText("All sessions of all users are over at once, yours too").waitFor();
        await accessible(page, "the question before everybody is signed out");
        if (tokens) await question.getByText("End all access tokens, too").click();
        await question.getByRole("button", { name: "Sign everybody out" }).click();
        await heading(page, "Sign in");
        await says(page, "Everybody is signed out.");
      });
      await there.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
    });
    assert.deepEqual([await isGood(ann), await isGood(bob), await isGood(token)], [false, false, !tokens]);
  }
};

const what_another_edited_meanwhile_is_not_overwritten = () =>
  scene({ user: "bob" }, async (page) => {
    const token = await tokenOf("bob");
    await page.goto("/account");
    await fill(page, "Email (optional)", "typed@example.org");
    await api("PATCH", "/me", token, { email: "other@example.org" });
    await says(page, "Somebody changed this while you were here.");
    await button(page, "Save").click();
    await page.getByRole("alert").waitFor();
    assert.equal((await api("GET", "/me", token)).email, "other@example.org");
    await button(page, "Show what it is now").click();
    await page.locator("input[name=email]").and(page.locator("[value='other@example.org']")).waitFor();
    await fill(page, "Email (optional)", "bob@example.org");
    await button(page, "Save").click();
    await says(page, "Saved.");
    await putAway(page, "Saved.");
    assert.equal(await page.getByText("Somebody changed this").count(), 0);
    // Again, on what it has become by that.
    await fill(page, "Email (optional)", "bob2@example.org");
    await button(page, "Save").click();
    await says(page, "Saved.");
  });

export default {
  somebody_looks_after_their_account,
  a_second_factor_is_set_up_asked_for_and_taken_away,
  an_access_token_does_what_it_may_until_it_is_deleted,
  another_password_ends_access_tokens_unless_they_are_kept,
  vms_that_were_opened_since_the_password_before_are_shown,
  an_administrator_helps_who_has_lost_what_they_sign_in_with,
  an_administrator_signs_everybody_out,
  what_another_edited_meanwhile_is_not_overwritten,
};

// A browser against a running demo. The Rust test bins/kite/tests/whole/browser.rs
// starts the demo and this.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const { KITE_API, KITE_BOOTSTRAP_TOKEN, KITE_CHROMIUM = "/usr/bin/chromium" } = process.env;
export const PASSWORD = "correct horse battery";

/** How long anything may take: long, for a slow and busy machine. */
export const PATIENCE = Number(process.env.KITE_PATIENCE ?? 60_000);

/** How many times slower the pages' processor is made, to find what relies on it. */
const SLOWDOWN = Number(process.env.KITE_SLOWDOWN ?? 1);

const axe = readFileSync(new URL(import.meta.resolve("axe-core")), "utf8");

export const browser = await chromium.launch({ executablePath: KITE_CHROMIUM, args: ["--no-sandbox"] });

/** A request of a script. */
export async function api(method, path, token, body) {
  const response = await fetch(`${KITE_API}/api/v1${path}`, {
    method,
    headers: {
      ...(token ? { authorization: `Bearer ${token}` } : {}),
      ...(body ? { "content-type": "application/json" } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  const answer = text ? JSON.parse(text) : null;
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return answer;
}

/** A request to the demo's API server, as `kubectl` makes it. */
export async function kubernetes(method, path, body) {
  const kubeconfig = readFileSync(join(process.env.KITE_STATE, "kubeconfig"), "utf8");
  const of = (name) => new RegExp(`^ *${name}: (\\S+)$`, "m").exec(kubeconfig)[1];
  const response = await fetch(`${of("server")}/apis/hy3ons.github.io/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${of("token")}`, "content-type": method === "PATCH" ? "application/merge-patch+json" : "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** Of a small VM. */
export const SIZE = { cpu: 1, memory: "1Gi", disk: "10Gi", image: "debian-12" };

/** Waits until the API tells that a VM is in this phase. */
export const phase = async (token, name, wanted) => {
  while ((await api("GET", `/vms/${name}`, token)).status.phase !== wanted) {
    await new Promise((done) => setTimeout(done, 200));
  }
};

/** Lets the sessions of `user` have been proved an hour ago. */
export async function ageProofs(user) {
  const { items } = await kubernetes("GET", "/kitesessions");
  const provedAt = new Date(Date.now() - 3_600_000).toISOString();
  for (const { metadata, spec } of items) {
    if (spec.user === user) await kubernetes("PATCH", `/kitesessions/${metadata.name}`, { spec: { provedAt } });
  }
}

export async function tokenOf(username) {
  return (await api("POST", "/auth/sign-in", null, { username, password: PASSWORD })).token;
}

/** A browser of somebody's own. What it complains about is collected. It waits before it acts, unless told
 * otherwise, until nothing loads any more. */
export async function visit({ user, width = 1440, theme = "light", locale = "en-US", waits = true } = {}) {
  const context = await browser.newContext({
    baseURL: KITE_API,
    viewport: { width, height: 900 },
    colorScheme: theme,
    locale,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  // What loads moves what is below it, from under a pointer that is down.
  if (waits) await page.addLocatorHandler(page.locator(".loading").first(), () => {});
  if (SLOWDOWN > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    // Refusals and lost connections are the tests' own doing.
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(message.text())) {
      faults.push(message.text());
    }
  });
  if (user) {
    const answer = await context.request.post("/api/v1/auth/sign-in", {
      data: { username: user, password: PASSWORD, cookie: true },
    });
    assert.ok(answer.ok(), await answer.text());
  }
  return { context, page, faults };
}

/** Runs `scene` in a browser of its own; no fault of the page may be left. */
export async function scene(options, play) {
  const { context, page, faults } = await visit(options);
  try {
    await play(page, context, faults);
    assert.deepEqual(faults, []);
  } catch (error) {
    const shown = await page.locator("body").innerText().catch(() => "");
    error.message += `\n--- at ${page.url()} the page shows:\n${shown}`;
    throw error;
  } finally {
    // What the page still asks for is answered to nobody.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  }
}

/** Nothing that axe-core calls serious or critical may be on the page, in either theme:
 * they differ by their colours alone. */
export async function accessible(page, what) {
  // What is read out of a button at work names what is gone once it is done, for seconds.
  await page.locator("[data-live-announcer] [role=img]").first().waitFor({ state: "detached" });
  await page.evaluate(axe);
  await fit(page, what, {});
  const isDark = await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches);
  const [theme, other] = isDark ? ["dark", "light"] : ["light", "dark"];
  await page.emulateMedia({ colorScheme: other });
  try {
    await fit(page, `${what}, ${other}`, { runOnly: ["color-contrast"] });
  } finally {
    await page.emulateMedia({ colorScheme: theme });
  }
}

async function fit(page, what, options) {
  // Colours take a moment to become others.
  await page.evaluate(() => Promise.all(document.getAnimations().filter((it) => it instanceof CSSTransition).map((it) => it.finished.catch(() => undefined))));
  const { violations } = await page.evaluate((options) => globalThis.axe.run(options), options);
  const bad = violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, failureSummary }) => [html, failureSummary]) }));
  assert.deepEqual(bad, [], what);
}

/** Nothing may stick out of the page to the side. */
export async function fitsWidth(page, what) {
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(inner <= outer, `${what}: ${inner} px in a window of ${outer} px`);
}

export const heading = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();
export const button = (page, name, exact = true) => page.getByRole("button", { name, exact });
/** Answers the question that a button asks before it acts. */
export const confirm = async (page, title, answer) => {
  const dialog = page.getByRole("dialog", { name: title });
  await dialog.getByRole("button", { name: answer, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
};
export const fill = (page, label, text) => page.getByLabel(label, { exact: true }).fill(text);
/** Waits until a field is marked as wrong. */
export const marked = (scope, name) => scope.locator(`[name='${name}'][aria-invalid=true]`).waitFor();
/** Waits until a field has the focus. */
export const focused = (page, name) =>
  page.waitForFunction((name) => document.activeElement?.getAttribute("name") === name, name);
export const says = (page, text) => page.getByText(text).first().waitFor();

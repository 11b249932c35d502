// Kite's first web page, without a build step. It talks to /api/v1 with the
// session cookie, which scripts cannot read.

import { showBootstrap, showSignIn } from "./entrance.js";
import { BAR, LEVELS, Offline, api, app, banner, sentence, setText, toast } from "./page.js";
import { refreshUsers, showUsers } from "./users.js";
import { renderVms, showVms } from "./vms.js";

const POLL_MS = 2000;
let timer = 0;

async function refresh() {
  try {
    const [{ items }, me] = await Promise.all([api("GET", "/vms"), api("GET", "/me")]);
    // Signed out while the answers were on their way.
    if (!app.me) return false;
    app.vms = items;
    app.me = me;
    renderVms();
    if (app.view === "users") await refreshUsers();
    banner("");
  } catch (error) {
    if (error.problem?.status === 401) {
      clearTimeout(timer);
      app.me = null;
      document.querySelector("dialog")?.close();
      banner("");
      await loadConfig();
      showSignIn("Your session has ended. Sign in again.");
      return false;
    }
    banner(`${sentence(error.message)} What you see may be old; trying again…`);
  }
  return true;
}

async function poll() {
  clearTimeout(timer);
  const go = document.hidden || (await refresh());
  if (go && app.me) timer = setTimeout(poll, POLL_MS);
}

async function loadConfig() {
  app.config = await api("GET", "/config").catch(() => app.config);
}

async function start() {
  try {
    app.config = await api("GET", "/config");
    try {
      app.me = await api("GET", "/me");
    } catch (error) {
      if (error.problem?.status !== 401) throw error;
      app.me = null;
    }
    banner("");
    if (!app.me) return app.config.bootstrapOpen ? showBootstrap() : showSignIn();
    const [vms, images] = await Promise.all([api("GET", "/vms"), api("GET", "/images")]);
    app.vms = vms.items;
    app.images = images.items;
    route();
    poll();
  } catch (error) {
    banner(`${sentence(error.message)} Trying again…`);
    setTimeout(start, POLL_MS);
  }
}

/** Shows what the address asks for. */
function route() {
  if (!app.me) return;
  BAR.hidden = false;
  setText(document.getElementById("who"), app.me.username);
  setText(document.getElementById("level"), LEVELS[app.me.accessLevel]);
  const mayUsers = app.me.accessLevel === "Admin";
  const users = mayUsers && location.hash === "#users";
  document.getElementById("places").hidden = !mayUsers;
  for (const [id, here] of [
    ["to-vms", !users],
    ["to-users", users],
  ]) {
    if (here) document.getElementById(id).setAttribute("aria-current", "page");
    else document.getElementById(id).removeAttribute("aria-current");
  }
  if (users) showUsers().catch((error) => banner(sentence(error.message)));
  else showVms();
}

async function signOut() {
  try {
    await api("POST", "/auth/sign-out");
  } catch (error) {
    if (error instanceof Offline) return toast(error.message);
  }
  clearTimeout(timer);
  app.me = null;
  showSignIn("You are signed out.");
}

document.getElementById("sign-out").addEventListener("click", signOut);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && app.me) poll();
});
document.addEventListener("kite:entered", start);
window.addEventListener("hashchange", route);
start();

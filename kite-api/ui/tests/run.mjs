// Every page and flow, in the order in which one world lives through them.

import test from "node:test";
import { browser } from "./world.mjs";
import account from "./account.mjs";
import admin from "./admin.mjs";
import cast from "./cast.mjs";
import entrance from "./entrance.mjs";
import looks from "./looks.mjs";
import provider from "./provider.mjs";
import sessions from "./sessions.mjs";
import standing from "./standing.mjs";
import trouble from "./trouble.mjs";
import vms from "./vms.mjs";

for (const part of [cast, standing, entrance, vms, admin, sessions, account, provider, trouble, looks]) {
  for (const [name, play] of Object.entries(part)) await test(name.replaceAll("_", " "), play);
}
await browser.close();

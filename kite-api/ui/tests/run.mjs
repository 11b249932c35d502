// Every page and flow, in the order in which each of several worlds lives through them.

import test from "node:test";
import { PASSWORD, SIZE, api, browser, phase, tokenOf } from "./world.mjs";
import account from "./account.mjs";
import admin from "./admin.mjs";
import cast from "./cast.mjs";
import consoles from "./consoles.mjs";
import dialogs from "./dialogs.mjs";
import disks from "./disks.mjs";
import ends from "./ends.mjs";
import entrance from "./entrance.mjs";
import focus from "./focus.mjs";
import lifetime from "./lifetime.mjs";
import looks from "./looks.mjs";
import notices from "./notices.mjs";
import platform from "./platform.mjs";
import proof from "./proof.mjs";
import provider from "./provider.mjs";
import refusals from "./refusals.mjs";
import sessions from "./sessions.mjs";
import spans from "./spans.mjs";
import standing from "./standing.mjs";
import trouble from "./trouble.mjs";
import vms from "./vms.mjs";
import words from "./words.mjs";

/** What there is where nobody played the making of a VM. */
const machine = {
  async ann_has_a_vm() {
    const token = await tokenOf("ann");
    await api("POST", "/vms", token, { name: "web", ...SIZE, sshPassword: PASSWORD });
    await phase(token, "web", "Running");
  },
};

/** What plays one after another in one demo. */
const worlds = {
  machines: [cast, ends, words, refusals, spans, standing, entrance, vms, consoles, lifetime, disks, platform, sessions],
  people: [entrance, machine, account, proof, notices, admin, focus, provider, trouble],
  looks: [entrance, machine, dialogs, looks],
};

const [, , world] = process.argv;
for (const part of worlds[world]) {
  for (const [name, play] of Object.entries(part)) await test(name.replaceAll("_", " "), play);
}
await browser.close();

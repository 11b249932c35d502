// My virtual machines: quota, cards, state in plain words.

import { openCreate } from "./create.js";
import { openDelete } from "./delete.js";
import { MAIN, api, app, copy, h, sentence, setText, show, toast } from "./page.js";
import { gib, sizeText, usage } from "./sizes.js";

const cards = new Map();

export function showVms() {
  cards.clear();
  const mayCreate = app.me.accessLevel !== "ReadOnly";
  show(
    "vms",
    "Virtual machines",
    h(
      "div",
      { class: "heading" },
      h("h1", {}, "Virtual machines"),
      mayCreate
        ? h("button", { type: "button", class: "primary", id: "new", onclick: openCreate }, "New VM")
        : null,
    ),
    h("dl", { class: "usage", id: "usage", "aria-label": "Quota" }),
    h("ul", { class: "cards", id: "cards", "aria-label": "Your virtual machines" }),
    h(
      "div",
      { class: "empty", id: "empty", hidden: true },
      h("img", { src: "/icon.svg", alt: "", width: "72", height: "72" }),
      h("h2", {}, "No virtual machines yet"),
      h(
        "p",
        {},
        mayCreate
          ? "Create one: choose an image and a size, and log in with ssh a minute later."
          : "Your account may only look. Ask an administrator for the access level User.",
      ),
      mayCreate
        ? h("button", { type: "button", class: "primary", onclick: openCreate }, "Create your first VM")
        : null,
    ),
  );
  renderVms();
}

export function renderVms() {
  if (app.view !== "vms") return;
  renderUsage();
  const list = document.getElementById("cards");
  const alive = new Set(app.vms.map((vm) => vm.uid));
  for (const [uid, card] of cards) {
    if (alive.has(uid)) continue;
    if (card.root.contains(document.activeElement)) MAIN.focus();
    card.root.remove();
    cards.delete(uid);
  }
  app.vms.forEach((vm, index) => {
    let card = cards.get(vm.uid);
    if (!card) {
      card = makeCard(vm);
      cards.set(vm.uid, card);
      list.insertBefore(card.root, list.children[index] || null);
    }
    card.update(vm);
  });
  document.getElementById("empty").hidden = app.vms.length > 0;
  const create = document.getElementById("new");
  if (create) create.hidden = app.vms.length === 0;
}

function renderUsage() {
  const { vms, cpu, memory, disk } = usage();
  const rows = [
    ["VMs", vms, String, ""],
    ["CPUs", cpu, String, ""],
    ["Memory", memory, gib, " GiB"],
    ["Disk", disk, gib, " GiB"],
  ];
  const list = document.getElementById("usage");
  if (!list.children.length) {
    for (const [label] of rows) {
      list.append(h("div", {}, h("dt", {}, label), h("dd", {}), h("meter", { min: "0", "aria-hidden": "true" })));
    }
  }
  rows.forEach(([, { used, most }, text, unit], index) => {
    const row = list.children[index];
    setText(row.children[1], `${text(used)} of ${text(most)}${unit}`);
    const meter = row.children[2];
    meter.max = most || 1;
    meter.high = (most || 1) * 0.85;
    meter.value = Math.min(used, most);
  });
}

/** How a VM does, in plain words. */
function state(vm) {
  const { status } = vm;
  const ready = status.conditions.find((condition) => condition.type === "Ready");
  if (vm.deleting) return { tone: "busy", label: "Being deleted", detail: "The disk goes with it." };
  if (!status.phase) return { tone: "busy", label: "Waiting", detail: "Kite has not looked at it yet." };
  const detail = ready && ready.status !== "True" ? ready.message : "";
  const wanted = vm.powerState === "On";
  switch (status.phase) {
    case "Running":
      if (!wanted) return { tone: "busy", label: "Shutting down", detail };
      return ready?.status === "True"
        ? { tone: "good", label: "Running", detail: "" }
        : { tone: "busy", label: "Running, not ready", detail };
    case "Stopped":
      return wanted ? { tone: "busy", label: "Starting", detail: "" } : { tone: "off", label: "Off", detail: "" };
    case "Provisioning":
      return { tone: "busy", label: "Making the disk", detail, progress: true };
    case "Failed":
      return { tone: "bad", label: "Needs attention", detail };
    case "Pending":
      return { tone: ready?.status === "False" ? "warn" : "busy", label: "Waiting", detail };
    default: {
      const words = { Starting: "Booting", Stopping: "Shutting down", Migrating: "Moving to another node", Paused: "Paused", Deleting: "Being deleted" };
      return { tone: "busy", label: words[status.phase] || status.phase, detail };
    }
  }
}

const CONDITIONS = {
  Ready: "Ready",
  Reserved: "Login name and domain",
  ImageReady: "Image",
  DiskReady: "Disk",
  VirtualMachineReady: "Virtual machine",
  Exposed: "Web address",
  RestartRequired: "Restart",
};

// Only there while it holds, and then no good news.
const NEEDED = { RestartRequired: ["!", "needed"] };
const MARKS = { True: ["✓", "in order"], False: ["!", "not yet"], Unknown: ["?", "unknown"] };

function makeCard(first) {
  const title = h("h2", {}, first.name);
  const badge = h("span", { class: "badge" });
  const facts = h("p", { class: "facts" });
  const detail = h("p", { class: "detail" });
  const progress = h("progress", { max: "100", "aria-label": `Disk of ${first.name}`, hidden: true });
  const command = h("code", {});
  const ssh = h(
    "div",
    { class: "ssh", hidden: true },
    command,
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Copy the ssh command of ${first.name}`,
        onclick: () => copy(command.textContent, "The ssh command was"),
      },
      "Copy",
    ),
  );
  const web = h("p", { class: "web", hidden: true });
  const conditions = h("ul", { class: "conditions" });
  const details = h("details", {}, h("summary", {}, "Details"), conditions);
  const power = h("button", { type: "button" });
  const remove = h("button", { type: "button", class: "danger quiet" }, "Delete…");
  const readOnly = app.me.accessLevel === "ReadOnly";
  const root = h(
    "li",
    { class: "card" },
    h("div", { class: "top" }, title, badge),
    facts,
    progress,
    detail,
    ssh,
    web,
    details,
    readOnly ? null : h("div", { class: "actions" }, power, remove),
  );

  let vm = first;
  power.addEventListener("click", async () => {
    const on = vm.powerState !== "On";
    power.disabled = true;
    setText(power, on ? "Turning on…" : "Turning off…");
    try {
      replaceVm(await api("POST", `/vms/${encodeURIComponent(vm.name)}/${on ? "start" : "stop"}`));
      toast(on ? `${vm.name} is being turned on.` : `${vm.name} is being turned off.`);
    } catch (error) {
      toast(sentence(error.message));
    } finally {
      power.disabled = false;
      update(vm);
    }
  });
  remove.addEventListener("click", () =>
    openDelete({
      name: vm.name,
      what: "VM and disk",
      consequence: "and everything on its disk.",
      send: async () => {
        await api("DELETE", `/vms/${encodeURIComponent(vm.name)}`);
        replaceVm({ ...vm, deleting: true });
      },
    }),
  );

  function update(next) {
    vm = next;
    const now = state(vm);
    root.dataset.tone = now.tone;
    setText(badge, now.label);
    setText(facts, `${imageName(vm.image)} · ${vm.cpu} CPU · ${sizeText(vm.memory)} RAM · ${sizeText(vm.disk)} disk`);
    setText(detail, now.detail ? sentence(now.detail) : "");
    detail.hidden = !now.detail;
    const percent = Number.parseFloat(vm.status.diskProgress);
    progress.hidden = !now.progress;
    if (Number.isNaN(percent)) progress.removeAttribute("value");
    else progress.value = percent;
    const reachable = vm.status.sshCommand && !vm.deleting;
    ssh.hidden = !reachable;
    if (reachable && command.textContent !== vm.status.sshCommand) {
      // The login stays in one piece where it fits on a line of its own.
      const at = vm.status.sshCommand.lastIndexOf(" ") + 1;
      command.replaceChildren(vm.status.sshCommand.slice(0, at), h("span", {}, vm.status.sshCommand.slice(at)));
    }
    web.hidden = !vm.status.domain || vm.deleting;
    if (!web.hidden && web.textContent !== vm.status.domain) {
      const url = `http://${vm.status.domain}/`;
      web.replaceChildren(h("a", { href: url, rel: "noreferrer" }, vm.status.domain));
    }
    renderConditions(conditions, vm.status.conditions);
    details.hidden = !vm.status.conditions.length;
    if (!power.disabled) {
      setText(power, vm.powerState === "On" ? "Turn off" : "Turn on");
      power.setAttribute("aria-label", `${power.textContent} ${vm.name}`);
    }
    remove.setAttribute("aria-label", `Delete ${vm.name}`);
    power.hidden = vm.deleting;
    remove.hidden = vm.deleting;
  }

  return { root, update };
}

function renderConditions(list, conditions) {
  const text = JSON.stringify(conditions);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(
    ...conditions.map((condition) => {
      const [mark, word] = NEEDED[condition.type] || MARKS[condition.status] || MARKS.Unknown;
      return h(
        "li",
        { "data-status": condition.status },
        h("span", { class: "mark", "aria-hidden": "true" }, mark),
        h(
          "span",
          {},
          h("strong", {}, CONDITIONS[condition.type] || condition.type),
          `: ${word}`,
          condition.message ? h("span", { class: "message" }, sentence(condition.message)) : null,
        ),
      );
    }),
  );
}

const imageName = (name) => app.images.find((image) => image.name === name)?.displayName || name;

export function replaceVm(vm) {
  const index = app.vms.findIndex((other) => other.uid === vm.uid);
  if (index < 0) app.vms.push(vm);
  else app.vms[index] = vm;
  app.vms.sort((a, b) => (a.name < b.name ? -1 : 1));
  renderVms();
}

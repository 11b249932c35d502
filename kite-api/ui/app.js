// Kite's first web page. One file, no build step: it talks to /api/v1 with the
// session cookie, which scripts cannot read.

const POLL_MS = 2000;
const MAIN = document.getElementById("main");
const BAR = document.getElementById("bar");
const BANNER = document.getElementById("banner");
const TOAST = document.getElementById("toast");

const app = { config: null, me: null, images: [], vms: [], cards: new Map(), timer: 0, view: "" };

// ---------------------------------------------------------------- plumbing

/** A refusal of the API, with its problem document. */
class Refused extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail || problem.title || "Something went wrong.");
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** The server cannot be reached. */
class Offline extends Error {}

async function api(method, path, body) {
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Offline("Kite cannot be reached. Check your connection.");
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer, Number(response.headers.get("retry-after") || 0));
  return answer;
}

/** Builds an element: h("p", {class: "x"}, "text", child). */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Changes text only where it differs, so that polling disturbs no reader. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function toast(text) {
  TOAST.textContent = text;
  TOAST.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => TOAST.classList.remove("shown"), 5000);
}

function banner(text) {
  BANNER.hidden = !text;
  setText(BANNER, text || "");
}

function show(view, title, ...content) {
  app.view = view;
  document.title = title ? `${title} · Kite` : "Kite";
  MAIN.className = view;
  MAIN.replaceChildren(...content);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied.`);
  } catch {
    toast("The browser did not allow copying: select the text and copy it by hand.");
  }
}

// ------------------------------------------------------------------- forms

/** A labelled input with room for a hint and an error. */
function field({ name, label, hint, control, ...attributes }) {
  const id = `f-${name}`;
  const input = control || h("input", { type: "text", ...attributes });
  input.id = id;
  input.setAttribute("name", name);
  const described = [hint && `${id}-hint`, `${id}-error`].filter(Boolean).join(" ");
  input.setAttribute("aria-describedby", described);
  return h(
    "div",
    { class: "field", "data-field": name },
    h("label", { for: id }, label),
    input,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
    h("p", { class: "error", id: `${id}-error` }),
  );
}

function newPassword(name, label, hint) {
  return field({
    name,
    label,
    hint,
    type: "password",
    autocomplete: "new-password",
    minlength: "8",
    maxlength: "1024",
    required: true,
  });
}

function clearErrors(form) {
  for (const error of form.querySelectorAll(".error")) error.textContent = "";
  for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
}

/** Puts each error of a problem at its field, the rest at the top. */
function showErrors(form, error) {
  const rest = [];
  let first = null;
  for (const { field: name, message } of error.problem?.errors || []) {
    const base = name.split(/[[.]/)[0];
    const place = form.querySelector(`[data-field="${CSS.escape(base)}"]`);
    if (!place) {
      rest.push(name ? `${name}: ${message}` : message);
      continue;
    }
    const details = place.closest("details");
    if (details) details.open = true;
    place.querySelector(".error").textContent = sentence(message.replace(/^(is|has|cannot) /, "this $1 "));
    const input = place.querySelector("input, select, textarea");
    input.setAttribute("aria-invalid", "true");
    first ||= input;
  }
  if (!first && !rest.length) rest.push(error.message);
  form.querySelector(".summary").textContent = rest.map(sentence).join(" ");
  first?.focus();
}

function sentence(text) {
  const trimmed = text.trim();
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`;
}

/** A form that sends once at a time, says so, and shows what was refused. */
function formOf({ fields, submit, busy, send, extra }) {
  const button = h("button", { type: "submit", class: "primary" }, submit);
  const form = h(
    "form",
    { novalidate: true },
    h("p", { class: "error summary", role: "alert" }),
    ...fields,
    h("div", { class: "actions" }, button, extra || null),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    clearErrors(form);
    const invalid = form.querySelector("input:invalid, select:invalid, textarea:invalid");
    if (invalid) {
      for (const input of form.querySelectorAll("input:invalid, select:invalid, textarea:invalid")) {
        input.setAttribute("aria-invalid", "true");
        const place = input.closest("[data-field]")?.querySelector(".error");
        if (place) place.textContent = input.validationMessage;
      }
      invalid.focus();
      return;
    }
    button.disabled = true;
    button.textContent = busy;
    try {
      await send(new FormData(form), form);
    } catch (error) {
      showErrors(form, error);
    } finally {
      button.disabled = false;
      button.textContent = submit;
    }
  });
  return form;
}

// ---------------------------------------------------------------- entrance

const usernameField = (hint) =>
  field({
    name: "username",
    label: "Username",
    hint,
    autocomplete: "username",
    autocapitalize: "none",
    spellcheck: "false",
    required: true,
    maxlength: "32",
  });

const emailField = () =>
  field({ name: "email", label: "Email (optional)", type: "email", autocomplete: "email" });

function entrance(view, title, lead, form, ...below) {
  BAR.hidden = true;
  show(
    view,
    title,
    h(
      "section",
      { class: "entrance", "aria-labelledby": "title" },
      h("p", { class: "logo" }, h("img", { src: "/icon.svg", alt: "", width: "44", height: "44" }), "Kite"),
      h("h1", { id: "title" }, title),
      h("p", { class: "lead" }, lead),
      form,
      ...below,
    ),
  );
  MAIN.querySelector("input")?.focus();
}

const link = (text, go) => h("p", { class: "other" }, h("button", { type: "button", class: "link", onclick: go }, text));

async function enter(path, values) {
  await api("POST", path, { ...values, cookie: true });
  await start();
}

const given = (data) =>
  Object.fromEntries([...data.entries()].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

/** Like given, but passwords keep their spaces. */
function account(data) {
  return { ...given(data), password: data.get("password") };
}

function showBootstrap() {
  entrance(
    "bootstrap",
    "Set up Kite",
    "Make the first administrator. The one-use token was printed when Kite was installed.",
    formOf({
      submit: "Create administrator",
      busy: "Creating…",
      fields: [
        field({
          name: "token",
          label: "Bootstrap token",
          type: "password",
          autocomplete: "off",
          required: true,
          hint: "Operators find it in the Secret kite-bootstrap of the namespace kite.",
        }),
        usernameField("2 to 32 lowercase letters, digits and hyphens."),
        emailField(),
        newPassword("password", "Password", "At least 8 characters."),
      ],
      send: (data) => enter("/auth/bootstrap", account(data)),
    }),
    link("I have an account: sign in", () => showSignIn()),
  );
}

function showSignIn(notice) {
  const below = [];
  if (app.config?.bootstrapOpen) below.push(link("Set up the first administrator", showBootstrap));
  if (app.config?.signUp === "Open") below.push(link("Create an account", showSignUp));
  entrance(
    "sign-in",
    "Sign in",
    notice || "Your virtual machines are waiting.",
    formOf({
      submit: "Sign in",
      busy: "Signing in…",
      fields: [
        usernameField(),
        field({
          name: "password",
          label: "Password",
          type: "password",
          autocomplete: "current-password",
          required: true,
        }),
      ],
      send: (data) => enter("/auth/sign-in", account(data)),
    }),
    ...below,
  );
}

function showSignUp() {
  entrance(
    "sign-up",
    "Create an account",
    "You get your own space for virtual machines.",
    formOf({
      submit: "Create account",
      busy: "Creating…",
      fields: [
        usernameField("2 to 32 lowercase letters, digits and hyphens."),
        emailField(),
        newPassword("password", "Password", "At least 8 characters."),
      ],
      send: (data) => enter("/auth/sign-up", account(data)),
    }),
    link("I have an account: sign in", () => showSignIn()),
  );
}

async function signOut() {
  try {
    await api("POST", "/auth/sign-out");
  } catch (error) {
    if (error instanceof Offline) return toast(error.message);
  }
  clearTimeout(app.timer);
  app.me = null;
  showSignIn("You are signed out.");
}

// ------------------------------------------------------------------ my VMs

const UNITS = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

/** Bytes of a size such as 20Gi. */
function bytes(size) {
  const [, number, unit] = /^([\d.]+)([A-Za-z]*)$/.exec(size) || [];
  return Number(number) * (UNITS[unit] || 1);
}

const gib = (value) => (value / UNITS.Gi).toLocaleString("en", { maximumFractionDigits: 1 });
const sizeText = (size) => size.replace(/(\d)([KMGT])i$/, "$1 $2iB").replace(/(\d)([kMGT])$/, "$1 $2B");

/** What the account's VMs ask for together, beside the quota. */
function usage() {
  const sum = (of) => app.vms.reduce((total, vm) => total + of(vm), 0);
  const quota = app.me.quota;
  return {
    vms: { used: app.vms.length, most: quota.vms },
    cpu: { used: sum((vm) => vm.cpu), most: quota.cpu },
    memory: { used: sum((vm) => bytes(vm.memory)), most: bytes(quota.memory) },
    disk: { used: sum((vm) => bytes(vm.disk)), most: bytes(quota.disk) },
  };
}

function showVms() {
  BAR.hidden = false;
  setText(document.getElementById("who"), app.me.username);
  setText(document.getElementById("level"), LEVELS[app.me.accessLevel]);
  app.cards.clear();
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

const LEVELS = { ReadOnly: "may look", User: "user", Manager: "manager", Admin: "administrator" };

function renderVms() {
  if (app.view !== "vms") return;
  renderUsage();
  const list = document.getElementById("cards");
  const alive = new Set(app.vms.map((vm) => vm.uid));
  for (const [uid, card] of app.cards) {
    if (alive.has(uid)) continue;
    if (card.root.contains(document.activeElement)) MAIN.focus();
    card.root.remove();
    app.cards.delete(uid);
  }
  app.vms.forEach((vm, index) => {
    let card = app.cards.get(vm.uid);
    if (!card) {
      card = makeCard(vm);
      app.cards.set(vm.uid, card);
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
};

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
  remove.addEventListener("click", () => openDelete(vm));

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
      const [mark, word] = MARKS[condition.status] || MARKS.Unknown;
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

function replaceVm(vm) {
  const index = app.vms.findIndex((other) => other.uid === vm.uid);
  if (index < 0) app.vms.push(vm);
  else app.vms[index] = vm;
  app.vms.sort((a, b) => (a.name < b.name ? -1 : 1));
  renderVms();
}

// ------------------------------------------------------------------ create

const SIZES = [
  { id: "small", label: "Small", cpu: 1, memory: "1Gi", disk: "10Gi" },
  { id: "medium", label: "Medium", cpu: 2, memory: "4Gi", disk: "20Gi" },
  { id: "large", label: "Large", cpu: 4, memory: "8Gi", disk: "50Gi" },
];

function openDialog(title, ...content) {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title" },
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { id: "dialog-title" }, title),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => dialog.close() }, "✕"),
    ),
    ...content,
  );
  const opener = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener?.isConnected) opener.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Whether a size is within what is left of the quota. */
function fits(size) {
  const { vms, cpu, memory, disk } = usage();
  return (
    vms.used < vms.most &&
    cpu.used + size.cpu <= cpu.most &&
    memory.used + bytes(size.memory) <= memory.most &&
    disk.used + bytes(size.disk) <= disk.most
  );
}

function randomPassword() {
  const alphabet = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
  const numbers = crypto.getRandomValues(new Uint32Array(16));
  return [...numbers].map((number) => alphabet[number % alphabet.length]).join("");
}

async function openCreate() {
  try {
    app.images = (await api("GET", "/images")).items;
  } catch (error) {
    return toast(sentence(error.message));
  }
  if (!app.images.length) return toast("There are no images yet: ask an administrator to add one.");

  const images = h(
    "select",
    { required: true },
    ...app.images.map((image) =>
      h(
        "option",
        { value: image.name },
        image.displayName + (image.phase && image.phase !== "Ready" ? ` (${image.phase.toLowerCase()})` : ""),
      ),
    ),
  );
  const chosen = SIZES.find((size) => size.id === "medium" && fits(size)) || SIZES.find(fits) || { id: "custom" };
  const custom = h(
    "div",
    { class: "custom", hidden: chosen.id !== "custom" },
    field({ name: "cpu", label: "CPUs", type: "number", min: "1", max: "256", value: "1" }),
    field({ name: "memory", label: "Memory", value: "1Gi", hint: "Such as 512Mi or 4Gi." }),
    field({ name: "disk", label: "Disk", value: "10Gi", hint: "It can grow later." }),
  );
  const sizes = h(
    "fieldset",
    { class: "sizes" },
    h("legend", {}, "Size"),
    ...[...SIZES, { id: "custom", label: "Custom" }].map((size) => {
      const within = size.id === "custom" || fits(size);
      const text =
        size.id === "custom"
          ? "You choose"
          : `${size.cpu} CPU, ${sizeText(size.memory)}, ${sizeText(size.disk)}`;
      return h(
        "label",
        { class: within ? "" : "off" },
        h("input", {
          type: "radio",
          name: "size",
          value: size.id,
          checked: size.id === chosen.id,
          disabled: !within,
          onchange: () => {
            custom.hidden = size.id !== "custom";
          },
        }),
        h("span", {}, h("strong", {}, size.label), h("small", {}, within ? text : `${text}: above your quota`)),
      );
    }),
  );
  const password = h("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "none",
    minlength: "8",
    maxlength: "1024",
  });
  const passwordField = field({
    name: "sshPassword",
    label: "SSH password",
    hint: "Kite keeps only a hash: note it down now. You can leave it empty if you give a key.",
    control: password,
  });
  password.after(
    h(
      "button",
      {
        type: "button",
        class: "quiet generate",
        onclick: () => {
          password.value = randomPassword();
          password.focus();
          password.select();
        },
      },
      "Generate a password",
    ),
  );
  const domain = app.config.baseDomain;
  const form = formOf({
    submit: "Create VM",
    busy: "Creating…",
    fields: [
      field({
        name: "name",
        label: "Name",
        hint: "Lowercase letters, digits and hyphens.",
        required: true,
        autocomplete: "off",
        autocapitalize: "none",
        spellcheck: "false",
        maxlength: "52",
      }),
      field({ name: "image", label: "Image", control: images }),
      sizes,
      custom,
      passwordField,
      field({
        name: "sshPublicKeys",
        label: "SSH public keys (optional)",
        hint: "One per line, as in ~/.ssh/id_ed25519.pub.",
        control: h("textarea", { rows: "2", spellcheck: "false", autocapitalize: "none" }),
      }),
      h(
        "details",
        {},
        h("summary", {}, "More options"),
        field({
          name: "sshId",
          label: "Login name (optional)",
          hint: "For ssh <login name>@gateway. Leave it empty to get one. It cannot be changed later.",
          autocapitalize: "none",
          spellcheck: "false",
          maxlength: "32",
        }),
        domain
          ? field({
              name: "domainPrefix",
              label: "Web address (optional)",
              hint: `Port 80 of the VM at <web address>.${domain}.`,
              autocapitalize: "none",
              spellcheck: "false",
              maxlength: "63",
            })
          : null,
      ),
    ],
    send: async (data, form) => {
      const vm = readVm(data);
      if (!vm.sshPassword && !vm.sshPublicKeys && !app.me.sshPublicKeys.length) {
        throw new Refused({
          errors: [{ field: "sshPassword", message: "Give a password or a public key: without one nobody can log in" }],
        });
      }
      replaceVm(await createVm(vm, form));
      dialog.close();
      toast(`${vm.name} is being created.`);
    },
    extra: h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
  });
  const dialog = openDialog("New virtual machine", form);
  form.querySelector("#f-name").focus();
}

function readVm(data) {
  const values = given(data);
  const size = SIZES.find((size) => size.id === values.size);
  const vm = {
    name: values.name,
    image: values.image,
    cpu: size ? size.cpu : Number(values.cpu),
    memory: size ? size.memory : values.memory,
    disk: size ? size.disk : values.disk,
  };
  if (data.get("sshPassword")) vm.sshPassword = data.get("sshPassword");
  if (values.sshPublicKeys) {
    vm.sshPublicKeys = values.sshPublicKeys
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  }
  for (const name of ["sshId", "domainPrefix"]) if (values[name]) vm[name] = values[name];
  return vm;
}

/** A new account's space may take some seconds to be made: wait for it. */
async function createVm(vm, form) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await api("POST", "/vms", vm);
    } catch (error) {
      if (error.problem?.type !== "urn:kite:problem:not-ready" || attempt === 5) throw error;
      form.querySelector(".summary").textContent = "Your space is still being prepared, one moment…";
      await new Promise((done) => setTimeout(done, 1000 * Math.max(1, error.retryAfter)));
    }
  }
}

// ------------------------------------------------------------------ delete

function openDelete(vm) {
  const form = formOf({
    submit: "Delete VM and disk",
    busy: "Deleting…",
    fields: [
      h("p", {}, "This deletes ", h("strong", {}, vm.name), " and everything on its disk. It cannot be undone."),
      field({
        name: "confirm",
        label: `Type ${vm.name} to confirm`,
        required: true,
        autocomplete: "off",
        autocapitalize: "none",
        spellcheck: "false",
      }),
    ],
    send: async (data) => {
      if (data.get("confirm").trim() !== vm.name) {
        throw new Refused({ errors: [{ field: "confirm", message: `That is not ${vm.name}` }] });
      }
      await api("DELETE", `/vms/${encodeURIComponent(vm.name)}`);
      dialog.close();
      toast(`${vm.name} is being deleted.`);
      await refresh();
    },
    extra: h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
  });
  form.querySelector("[type=submit]").classList.add("danger");
  const dialog = openDialog(`Delete ${vm.name}?`, form);
  form.querySelector("input").focus();
}

// -------------------------------------------------------------------- life

async function refresh() {
  try {
    const [{ items }, me] = await Promise.all([api("GET", "/vms"), api("GET", "/me")]);
    app.vms = items;
    app.me = me;
    banner("");
    renderVms();
  } catch (error) {
    if (error.problem?.status === 401) {
      clearTimeout(app.timer);
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
  clearTimeout(app.timer);
  const go = document.hidden || (await refresh());
  if (go && app.me) app.timer = setTimeout(poll, POLL_MS);
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
    showVms();
    poll();
  } catch (error) {
    banner(`${sentence(error.message)} Trying again…`);
    setTimeout(start, POLL_MS);
  }
}

document.getElementById("sign-out").addEventListener("click", signOut);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && app.me) poll();
});
start();

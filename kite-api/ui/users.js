// Accounts, for administrators.

import { openDelete } from "./delete.js";
import { field, formOf, generatedPassword, given, openDialog } from "./forms.js";
import { LEVELS, MAIN, api, app, h, sentence, setText, show, toast } from "./page.js";

const rows = new Map();

export async function showUsers() {
  rows.clear();
  show(
    "users",
    "Users",
    h(
      "div",
      { class: "heading" },
      h("h1", {}, "Users"),
      h("button", { type: "button", class: "primary", onclick: openNewUser }, "New user"),
    ),
    h("ul", { class: "people", id: "people", "aria-label": "Users" }),
  );
  await refreshUsers();
}

/** Brings the list up to date, without touching what did not change. */
export async function refreshUsers() {
  const { items } = await api("GET", "/admin/users");
  if (app.view !== "users") return;
  const list = document.getElementById("people");
  const alive = new Set(items.map((user) => user.name));
  for (const [name, row] of rows) {
    if (alive.has(name)) continue;
    if (row.root.contains(document.activeElement)) MAIN.focus();
    row.root.remove();
    rows.delete(name);
  }
  items.forEach((user, index) => {
    let row = rows.get(user.name);
    if (!row) {
      row = makeRow(user);
      rows.set(user.name, row);
      list.insertBefore(row.root, list.children[index] || null);
    }
    row.update(user);
  });
}

function makeRow(first) {
  let user = first;
  const self = user.name === app.me.name;
  const path = `/admin/users/${encodeURIComponent(user.name)}`;
  const facts = h("p", { class: "facts" });
  const level = h(
    "select",
    { "aria-label": `Access level of ${user.username}`, disabled: self },
    ...Object.entries(LEVELS).map(([value, text]) => h("option", { value }, text)),
  );
  const suspend = h("button", { type: "button" });
  const remove = h("button", { type: "button", class: "danger quiet", "aria-label": `Delete ${user.username}` }, "Delete…");

  async function edit(control, change, done) {
    control.disabled = true;
    try {
      update(await api("PATCH", path, change));
      toast(done);
    } catch (error) {
      toast(sentence(error.message));
      update(user);
    } finally {
      control.disabled = false;
    }
  }
  level.addEventListener("change", () =>
    edit(level, { accessLevel: level.value }, `${user.username} is now: ${LEVELS[level.value]}.`),
  );
  suspend.addEventListener("click", () =>
    edit(
      suspend,
      { suspended: !user.suspended },
      user.suspended ? `${user.username} may sign in again.` : `${user.username} is signed out and suspended.`,
    ),
  );
  remove.addEventListener("click", () =>
    openDelete({
      name: user.username,
      what: "account and VMs",
      consequence: "with all virtual machines and disks.",
      send: async () => {
        await api("DELETE", path);
        await refreshUsers();
      },
    }),
  );
  const root = h(
    "li",
    { class: "person" },
    h("div", {}, h("h2", {}, user.username, self ? " (you)" : ""), facts),
    h("div", { class: "controls" }, level, self ? null : suspend, self ? null : remove),
  );

  function update(next) {
    user = next;
    const { vms } = user.usage;
    setText(
      facts,
      [
        user.email,
        vms === 1 ? "1 VM" : `${vms} VMs`,
        user.deleting ? "being deleted" : user.suspended ? "suspended" : null,
        !user.namespace && !user.deleting ? "being prepared" : null,
      ]
        .filter(Boolean)
        .join(" · "),
    );
    root.classList.toggle("muted", user.suspended || user.deleting);
    if (document.activeElement !== level) level.value = user.accessLevel;
    setText(suspend, user.suspended ? "Let in again" : "Suspend");
    suspend.setAttribute("aria-label", `${suspend.textContent} ${user.username}`);
    suspend.hidden = user.deleting;
    remove.hidden = user.deleting;
  }

  return { root, update };
}

function openNewUser() {
  const form = formOf({
    submit: "Create user",
    busy: "Creating…",
    fields: [
      field({
        name: "username",
        label: "Username",
        hint: "2 to 32 lowercase letters, digits and hyphens.",
        required: true,
        autocomplete: "off",
        autocapitalize: "none",
        spellcheck: "false",
        maxlength: "32",
      }),
      field({ name: "email", label: "Email (optional)", type: "email", autocomplete: "off" }),
      generatedPassword({ name: "password", label: "Password", hint: "Hand it to the user: Kite keeps only a hash.", required: true }),
      field({
        name: "accessLevel",
        label: "Access level",
        control: h(
          "select",
          {},
          ...Object.entries(LEVELS).map(([value, text]) => h("option", { value, selected: value === "User" }, text)),
        ),
      }),
    ],
    send: async (data) => {
      const user = await api("POST", "/admin/users", { ...given(data), password: data.get("password") });
      dialog.close();
      toast(`${user.username} can sign in now.`);
      await refreshUsers();
    },
    extra: h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
  });
  const dialog = openDialog("New user", form);
  form.querySelector("input").focus();
}

// Forms and dialogs: labels, hints, errors at their fields.

import { h, sentence } from "./page.js";

/** A labelled input with room for a hint and an error. */
export function field({ name, label, hint, control, ...attributes }) {
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

export function newPassword(name, label, hint) {
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

/** A form that sends once at a time, says so, and shows what was refused. */
export function formOf({ fields, submit, busy, send, extra }) {
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

export const given = (data) =>
  Object.fromEntries([...data.entries()].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

export function openDialog(title, ...content) {
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

function randomPassword() {
  const alphabet = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
  const numbers = crypto.getRandomValues(new Uint32Array(16));
  return [...numbers].map((number) => alphabet[number % alphabet.length]).join("");
}

/** A new password that is shown, for one to note down or hand on. */
export function generatedPassword({ name, label, hint, required }) {
  const input = h("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    autocapitalize: "none",
    minlength: "8",
    maxlength: "1024",
    required,
  });
  const whole = field({ name, label, hint, control: input });
  input.after(
    h(
      "button",
      {
        type: "button",
        class: "quiet generate",
        onclick: () => {
          input.value = randomPassword();
          input.focus();
          input.select();
        },
      },
      "Generate a password",
    ),
  );
  return whole;
}

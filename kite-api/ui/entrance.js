// The way in: bootstrap, sign-in, sign-up.

import { field, formOf, given, newPassword } from "./forms.js";
import { BAR, MAIN, api, app, h, show } from "./page.js";

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
  document.dispatchEvent(new Event("kite:entered"));
}

/** Like given, but passwords keep their spaces. */
function account(data) {
  return { ...given(data), password: data.get("password") };
}

export function showBootstrap() {
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

export function showSignIn(notice) {
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

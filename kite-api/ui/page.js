// What every part of the page uses: the API, elements, messages.

export const MAIN = document.getElementById("main");
export const BAR = document.getElementById("bar");
const BANNER = document.getElementById("banner");
const TOAST = document.getElementById("toast");

/** What is known at the moment. */
export const app = { config: null, me: null, images: [], vms: [], view: "" };

/** A refusal of the API, with its problem document. */
export class Refused extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail || problem.title || "Something went wrong.");
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** The server cannot be reached. */
export class Offline extends Error {}

async function send(method, path, body) {
  try {
    return await fetch(`/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Offline("Kite cannot be reached. Check your connection.");
  }
}

/** Renews the cookies once for all requests that wait for it. */
let renewal = null;
function renewed() {
  renewal ??= send("POST", "/auth/refresh").finally(() => (renewal = null));
  return renewal.then((response) => response.ok);
}

export async function api(method, path, body) {
  let response = await send(method, path, body);
  if (response.status === 204) return null;
  let answer = await response.json().catch(() => ({}));
  // The time of the access cookie is over, as it is every quarter of an hour.
  if (answer.type === "urn:kite:problem:unauthenticated" && (await renewed())) {
    response = await send(method, path, body);
    if (response.status === 204) return null;
    answer = await response.json().catch(() => ({}));
  }
  if (!response.ok) throw new Refused(answer, Number(response.headers.get("retry-after") || 0));
  return answer;
}

/** Builds an element: h("p", {class: "x"}, "text", child). */
export function h(tag, attributes = {}, ...children) {
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
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function toast(text) {
  TOAST.textContent = text;
  TOAST.classList.add("shown");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => TOAST.classList.remove("shown"), 5000);
}

export function banner(text) {
  BANNER.hidden = !text;
  setText(BANNER, text || "");
}

export function show(view, title, ...content) {
  app.view = view;
  document.title = title ? `${title} · Kite` : "Kite";
  MAIN.className = view;
  MAIN.replaceChildren(...content);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied.`);
  } catch {
    toast("The browser did not allow copying: select the text and copy it by hand.");
  }
}

export function sentence(text) {
  const trimmed = text.trim();
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`;
}

export const LEVELS = { ReadOnly: "may look", User: "user", Manager: "manager", Admin: "administrator" };

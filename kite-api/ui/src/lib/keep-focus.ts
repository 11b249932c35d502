// Where the keyboard's focus goes when what had it is gone: a button whose work is done, a
// row that is deleted, a dialog that was asked for by either. Browsers leave it nowhere
// then, and whoever goes by keys or hears the page is back at its beginning.

/** Most of what can be gone to by keys. */
const FOCUSABLE = "a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex='0']";

/** One element on the way from what has the focus up to the body, and what was beside it. */
interface Step {
  element: Element;
  parent: Element;
  siblings: readonly Element[];
}

/** Where the focus was. */
interface Place {
  steps: readonly Step[];
  /** The page, or a dialog over it: what of the body's own children it is in. */
  layer: Element | undefined;
  /** Where it was before it came into this layer. */
  before: Place | undefined;
}

function placeOf(element: Element, last: Place | undefined): Place {
  const steps: Step[] = [];
  for (let at = element; at.parentElement !== null && at !== document.body; at = at.parentElement) {
    steps.push({ element: at, parent: at.parentElement, siblings: [...at.parentElement.children] });
  }
  const layer = steps.at(-1)?.element;
  return { steps, layer, before: beforeLayer(layer, last) };
}

/** Closing one dialog leads back to the one below, and not to the one that is closed. */
function beforeLayer(layer: Element | undefined, last: Place | undefined): Place | undefined {
  for (let at = last; at !== undefined; at = at.before) {
    if (at.layer === layer) return at.before;
  }
  return last;
}

const isSeen = (element: Element) => element.checkVisibility({ visibilityProperty: true }) && element.closest("[inert]") === null;

function firstIn(element: Element): HTMLElement | undefined {
  const all = [...(element.matches(FOCUSABLE) ? [element] : []), ...element.querySelectorAll(FOCUSABLE)];
  return all.find((it): it is HTMLElement => it instanceof HTMLElement && isSeen(it));
}

/** What a part of the page is told by: dialogs and the page by themselves, others by their
 * title, if they have one. */
function titleOf(element: Element): HTMLElement | undefined {
  const title = element.matches("section") ? element.querySelector("h2, h3") : element.matches("main, [role=dialog]") && element;
  return title instanceof HTMLElement ? title : undefined;
}

/** What is nearest to where the focus was, of what is still there: what has come in its
 * place, else what was behind it or before it, else the part of the page that it was in. */
function nearby({ steps }: Place): HTMLElement | undefined {
  const lost = steps.findIndex(({ parent }) => parent.isConnected);
  if (lost < 0) return undefined;
  for (const { element, parent, siblings } of steps.slice(lost)) {
    if (parent === document.body) return undefined;
    // What a dialog shows next is told from its beginning.
    if (!parent.matches("[role=dialog]")) {
      const at = siblings.indexOf(element);
      const others = [...siblings.slice(at + 1), ...siblings.slice(0, at).reverse()].filter((it) => it.parentElement === parent);
      const added = [...parent.children].filter((it) => !siblings.includes(it));
      for (const it of [...added, ...others]) {
        const found = it === element ? undefined : firstIn(it);
        if (found !== undefined) return found;
      }
    }
    const title = titleOf(parent);
    if (title !== undefined) return title;
  }
  return undefined;
}

/** The nearest of where it was last, or, where that is all gone, of where it was before. */
function destination(place: Place | undefined): HTMLElement | undefined {
  for (let at = place; at !== undefined; at = at.before) {
    const own = at.steps[0]?.element;
    const found = own?.isConnected === true ? firstIn(own) : nearby(at);
    if (found !== undefined) return found;
  }
  return document.querySelector("main") ?? undefined;
}

const isLost = ({ steps }: Place) => steps[0] !== undefined && !steps[0].element.isConnected && document.activeElement === document.body;

/** Keeps the focus on the page, from now on. Returns what ends that. */
export function keepFocus(): () => void {
  let last: Place | undefined;
  let frame = 0;
  const follow = ({ target }: FocusEvent) => {
    if (target instanceof Element) last = placeOf(target, last);
  };
  /** Whoever has left it by a press beside it wants it no more. What is taken away is left
   * too, and is gone once the script that does so is through: by the next frame, on a busy
   * machine, may be gone what somebody has left before. */
  const leave = ({ target, relatedTarget }: FocusEvent) => {
    if (relatedTarget !== null) return;
    queueMicrotask(() => {
      if (target instanceof Element && target.isConnected && document.activeElement === document.body) last = undefined;
    });
  };
  const lead = () => {
    frame = 0;
    if (last === undefined || !isLost(last)) return;
    const to = destination(last);
    if (to === undefined) return;
    if (!to.matches(FOCUSABLE) && !to.hasAttribute("tabindex")) to.tabIndex = -1;
    // What is looked at stays where it is: it may have gone long after it was pressed.
    to.focus({ preventScroll: true });
  };
  // Dialogs lead back by themselves to what opened them, if it is there, within a frame.
  const soon = () => {
    if (frame !== 0 || last === undefined || !isLost(last)) return;
    frame = requestAnimationFrame(() => (frame = requestAnimationFrame(lead)));
  };
  const changes = new MutationObserver(soon);
  document.addEventListener("focusin", follow);
  document.addEventListener("focusout", leave);
  changes.observe(document.body, { childList: true, subtree: true });
  return () => {
    document.removeEventListener("focusin", follow);
    document.removeEventListener("focusout", leave);
    changes.disconnect();
    cancelAnimationFrame(frame);
  };
}

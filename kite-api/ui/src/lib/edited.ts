// Whether somebody has changed what a form shows. Fields keep their values to
// themselves, so what is in the form is compared with what was in it when somebody
// first went there: before that nothing can have been changed, and all of it is there.

const before = new WeakMap<HTMLFormElement, string>();

export function contentOf(form: HTMLFormElement): string {
  const entries = Array.from(new FormData(form), ([name, value]) => [name, typeof value === "string" ? value : value.name]);
  return JSON.stringify(entries);
}

/** Somebody went into the form. */
export function begin(form: HTMLFormElement): void {
  if (!before.has(form)) before.set(form, contentOf(form));
}

/** What is in the form is nobody's change any more, as it is saved; if somebody wrote on
 * meanwhile, only `saved` is. */
export function settle(form: HTMLFormElement, saved = contentOf(form)): void {
  before.set(form, saved);
}

/** Whether one of the forms in here has been changed. */
export function hasEdits(element: Element): boolean {
  return Array.from(element.querySelectorAll("form")).some((form) => {
    const content = before.get(form);
    return content !== undefined && content !== contentOf(form);
  });
}

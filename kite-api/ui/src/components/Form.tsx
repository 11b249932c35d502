// One kind of form for everything: it sends, shows that it does, and puts what
// the API says at the fields that it speaks of.

import { Form as AriaForm } from "react-aria-components/Form";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState, type FormEvent, type ReactNode } from "react";
import { useT, type Translate } from "../i18n";
import { queries } from "../api/queries";
import { baseField, isProblemOf, ProblemError, sentence, type FieldError } from "../api/problem";
import { useErrorText } from "./errors";
import { FieldErrors } from "./field-errors";
import { Button } from "./Button";
import { Notice } from "./Notice";

/** What a form refuses before it asks anybody. */
export class Refused extends Error {
  constructor(readonly errors: readonly FieldError[]) {
    super(errors.map((error) => error.message).join(" "));
  }
}

/** What can be seen of a form without asking anybody. */
interface Seen {
  /** Is not there and must be: nobody has to say more about it. */
  lacking: readonly FieldError[];
  /** Is not written as it should be; the API may know better what is wrong. */
  odd: readonly FieldError[];
  /** Some of it the browser cannot read, such as half of a date: it would be sent as if
   * the field were empty. */
  isUnreadable: boolean;
}

function look(form: HTMLFormElement, t: Translate): Seen {
  const inputs = Array.from(form.elements).filter(
    (element) => element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement,
  );
  // Spaces are as good a password as any other.
  const textOf = ({ value, autocomplete }: (typeof inputs)[number]) =>
    autocomplete.endsWith("-password") ? value : value.trim();
  const isEmpty = (input: (typeof inputs)[number]) => textOf(input) === "" && !input.validity.badInput;
  const isLacking = (input: (typeof inputs)[number]) => input.getAttribute("aria-required") === "true" && isEmpty(input);
  const isOdd = ({ validity }: (typeof inputs)[number]) =>
    validity.patternMismatch || validity.typeMismatch || validity.badInput;
  return {
    lacking: inputs.filter(isLacking).map(({ name }) => ({ field: name, message: t("form.lacking") })),
    odd: inputs.filter(isOdd).map(({ name }) => ({ field: name, message: t("form.odd") })),
    isUnreadable: inputs.some(({ validity }) => validity.badInput),
  };
}

/** What the API says of fields, and what was seen before: each field by one voice. */
function together(said: readonly FieldError[], { lacking, odd }: Seen): FieldError[] {
  const isSame = (a: string, b: string) => a === b || baseField(a) === b || a === baseField(b);
  const without = (list: readonly FieldError[], others: readonly FieldError[]) =>
    list.filter(({ field }) => !others.some((other) => isSame(other.field, field)));
  const rest = without(said, lacking);
  return [...lacking, ...rest, ...without(odd, [...lacking, ...rest])];
}

interface Props {
  children: ReactNode;
  submit: string;
  look?: "primary" | "danger";
  /** Beside the button that sends. */
  extra?: ReactNode;
  disabled?: boolean;
  /** Rules of the page's own. Where they find something, `send` must see to it that the
   * API refuses: then it says what else is wrong. */
  check?: (data: FormData) => FieldError[];
  /** Nothing is sent while something is missing: a wrong password counts. Otherwise it
   * is, as the API says of all other fields what is wrong with them; what cannot be read
   * never is. */
  onlyComplete?: boolean;
  send: (data: FormData, form: HTMLFormElement) => Promise<unknown>;
}

export function Form(props: Props) {
  const { children, submit, look: buttonLook = "primary", extra, disabled = false, check, onlyComplete = false, send } = props;
  const t = useT();
  const errorText = useErrorText();
  const form = useRef<HTMLFormElement>(null);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [rest, setRest] = useState<string | null>(null);
  const mutation = useMutation({ mutationFn: (data: FormData) => send(data, form.current as HTMLFormElement) });

  const show = (error: unknown, seen: Seen) => {
    // Somebody else was faster: the page shows what it is now.
    if (isProblemOf(error, "changed-meanwhile")) void queries.invalidateQueries();
    const known = new Set(Array.from(form.current?.elements ?? [], (element) => element.getAttribute("name")));
    const said = error instanceof ProblemError || error instanceof Refused ? error.errors : [];
    const list = together(said, seen);
    const at: Record<string, string> = {};
    const others: string[] = [];
    for (const { field, message } of list) {
      const name = [field, baseField(field)].find((name) => known.has(name));
      if (name === undefined) others.push(`${field}: ${message}`);
      else at[name] = at[name] === undefined ? sentence(message) : `${at[name]} ${sentence(message)}`;
    }
    setErrors(at);
    // What is refused for another reason is said, unless there is something to fill in first.
    const isOther = !(error instanceof Refused) && said.length === 0 && seen.lacking.length === 0;
    if (others.length > 0) setRest(others.map(sentence).join(" "));
    else setRest(isOther || Object.keys(at).length === 0 ? errorText(error) : null);
    const isWrong = (element: Element) => at[element.getAttribute("name") ?? ""] !== undefined;
    const element = Array.from(form.current?.elements ?? []).find(isWrong);
    // Once the fields know that they are invalid.
    if (element instanceof HTMLElement) requestAnimationFrame(() => element.focus());
  };

  const onSubmit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (mutation.isPending) return;
    setErrors({});
    setRest(null);
    const data = new FormData(event.currentTarget);
    const { lacking, ...others } = look(event.currentTarget, t);
    const seen = { lacking: [...lacking, ...(check?.(data) ?? [])], ...others };
    if (seen.isUnreadable || (onlyComplete && seen.lacking.length > 0)) return show(new Refused([]), seen);
    mutation.mutate(data, { onError: (error) => show(error, seen) });
  };

  return (
    <AriaForm ref={form} className="form" onSubmit={onSubmit} validationBehavior="aria">
      {rest !== null && <Notice tone="bad">{rest}</Notice>}
      <FieldErrors value={errors}>{children}</FieldErrors>
      <div className="form-actions">
        <Button type="submit" look={buttonLook} isPending={mutation.isPending} isDisabled={disabled}>
          {mutation.isPending ? t("form.busy") : submit}
        </Button>
        {extra}
      </div>
    </AriaForm>
  );
}

/** A text field's value without spaces around it; undefined where it is empty. */
export function given(data: FormData, name: string): string | undefined {
  const text = String(data.get(name) ?? "").trim();
  return text === "" ? undefined : text;
}

/** The same for an edit: null removes what was there. */
export function changed(data: FormData, name: string, before: string | undefined): string | null | undefined {
  const text = given(data, name);
  if (text === before) return undefined;
  return text ?? null;
}

/** An object without the fields that are undefined. */
export function compact(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

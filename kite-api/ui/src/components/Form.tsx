// One kind of form for everything: it sends, shows that it does, and puts what
// the API says at the fields that it speaks of.

import { Form as AriaForm } from "react-aria-components/Form";
import { useMutation } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import { useI18n, type Translate } from "../i18n";
import { exampleTime, isOver, withLocalTimes } from "../lib/time";
import { queries } from "../api/queries";
import { baseField, isProblemOf, ProblemError, sentence, type FieldError } from "../api/problem";
import { begin, contentOf, settle } from "../lib/edited";
import { refusalsNow, refusalText } from "../lib/refusals";
import { useErrorText } from "./errors";
import { BEFORE, LOST } from "./Field";
import { Corrected, FieldErrors } from "./field-errors";
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
  /** Some of it must not be sent, whatever the API says to it: what the browser cannot
   * read, such as half of a date, would be sent as if the field were empty, and so would
   * what was lost; and an end that is over ends what it is set for, which an older API
   * takes as it is. */
  isUnfit: boolean;
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
  const isEnd = (input: (typeof inputs)[number]) => input.type === "datetime-local";
  const isPast = (input: (typeof inputs)[number]) =>
    isEnd(input) && isOver(input.value) && input.value !== input.getAttribute(BEFORE);
  const isLost = (input: (typeof inputs)[number]) => input.hasAttribute(LOST) && isEmpty(input);
  const isOdd = ({ validity }: (typeof inputs)[number]) =>
    validity.patternMismatch || validity.typeMismatch || validity.badInput || validity.rangeOverflow;
  const oddness = (input: (typeof inputs)[number]) => {
    if (isPast(input)) return t("form.past");
    return isEnd(input) ? t("form.halfTime", { example: exampleTime() }) : t("form.odd");
  };
  return {
    lacking: inputs.filter(isLacking).map(({ name }) => ({ field: name, message: t("form.lacking") })),
    odd: inputs
      .filter((input) => isOdd(input) || isPast(input))
      .map((input) => ({ field: input.name, message: oddness(input) })),
    isUnfit: inputs.some((input) => input.validity.badInput || input.validity.rangeOverflow || isPast(input) || isLost(input)),
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

const nameOf = (element: Element) => element.getAttribute("name") ?? "";

/** Of several radio buttons the one that is chosen: others may not take the focus. */
const isReachable = (element: Element) =>
  !(element instanceof HTMLInputElement && element.type === "radio") || element.checked;

/** Whether all of an element is in the window. */
function isInSight(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  return top >= 0 && bottom <= window.innerHeight;
}

interface Props {
  children: ReactNode;
  submit: string;
  look?: "primary" | "danger";
  /** The button that sends has the focus from the start: Enter is all it takes. */
  isReady?: boolean;
  /** Beside the button that sends. */
  extra?: ReactNode;
  disabled?: boolean;
  /** Nothing is sent while something is missing: a wrong password counts. Otherwise it
   * is, as the API says of all other fields what is wrong with them; what cannot be read
   * never is. */
  onlyComplete?: boolean;
  send: (data: FormData, form: HTMLFormElement) => Promise<unknown>;
}

export function Form(props: Props) {
  const { children, submit, look: buttonLook = "primary", isReady = false, extra } = props;
  const { disabled = false, onlyComplete = false, send } = props;
  const { t, tag } = useI18n();
  const errorText = useErrorText();
  const form = useRef<HTMLFormElement>(null);
  const notice = useRef<HTMLDivElement>(null);
  const [errors, setErrors] = useState<Record<string, string>>({});
  /** Fields that were not written as they should be when something was refused. */
  const odd = useRef<ReadonlySet<string>>(new Set());
  const [rest, setRest] = useState<string | null>(null);
  /** The field that is to have the focus after what was refused, of each refusal anew. */
  const [refusal, setRefusal] = useState<{ at: Element | undefined }>();
  const mutation = useMutation({ mutationFn: (data: FormData) => send(data, form.current as HTMLFormElement) });

  /** What was said of a field goes once it is corrected. */
  const correct = useCallback(
    (name: string) =>
      setErrors((errors) => {
        const said = errors[name];
        if (said === undefined || form.current === null) return errors;
        const seen = look(form.current, t);
        const isOf = ({ field }: FieldError) => field === name;
        const now = seen.lacking.find(isOf) ?? seen.odd.find(isOf);
        const { [name]: _said, ...others } = errors;
        if (now === undefined) return others;
        // Where it is as odd as it was, what was said of it says more.
        return { ...others, [name]: odd.current.has(name) && !seen.lacking.some(isOf) ? said : sentence(now.message) };
      }),
    [t],
  );

  useEffect(() => {
    const element = form.current;
    if (element === null) return;
    const enter = () => begin(element);
    // What has the focus from the start may have it already.
    if (element.contains(document.activeElement)) enter();
    // Not at once: what is drawn before React hears of it puts the field's old text back.
    const input = ({ target }: Event) => void (target instanceof Element && setTimeout(() => correct(nameOf(target))));
    element.addEventListener("focusin", enter);
    element.addEventListener("input", input);
    return () => {
      element.removeEventListener("focusin", enter);
      element.removeEventListener("input", input);
    };
  }, [correct]);

  // What was sent, where somebody has written on since.
  const ahead = useRef<string>(undefined);
  useEffect(() => {
    // Once the fields show what came of it.
    if (mutation.isSuccess && form.current) settle(form.current, ahead.current);
  }, [mutation.isSuccess, mutation.submittedAt]);

  /** What is said of fields, in the reader's language. */
  const saidBy = (error: unknown): readonly FieldError[] => {
    if (error instanceof Refused) return error.errors;
    if (!(error instanceof ProblemError)) return [];
    return error.errors.map((it) => ({ ...it, message: refusalText(it.message, error.kind, refusalsNow()) }));
  };

  const show = (error: unknown, seen: Seen) => {
    // Somebody else was faster: the page shows what it is now.
    if (isProblemOf(error, "changed-meanwhile")) void queries.invalidateQueries();
    const elements = Array.from(form.current?.elements ?? []);
    const known = new Set(elements.map(nameOf));
    const said = saidBy(error);
    const list = together(said, seen).map((it) => ({ ...it, message: withLocalTimes(it.message, tag) }));
    const at: Record<string, string> = {};
    const others: string[] = [];
    for (const { field, message } of list) {
      const name = [field, baseField(field)].find((name) => known.has(name));
      // What is about no single field has none.
      if (name === undefined) others.push(field === "" ? message : `${field}: ${message}`);
      else at[name] = at[name] === undefined ? sentence(message) : `${at[name]} ${sentence(message)}`;
    }
    setErrors(at);
    odd.current = new Set(seen.odd.map(({ field }) => field));
    // What is refused for another reason is said, unless there is something to fill in first.
    const isOther = !(error instanceof Refused) && said.length === 0 && seen.lacking.length === 0;
    if (others.length > 0) setRest(others.map(sentence).join(" "));
    else setRest(isOther || Object.keys(at).length === 0 ? errorText(error) : null);
    const isWrong = (element: Element) => at[nameOf(element)] !== undefined;
    setRefusal({ at: elements.find((element) => isWrong(element) && isReachable(element)) });
  };

  // An effect, as the fields know by then that they are invalid, and what is said of no
  // field is there: the next frame may come before that.
  useEffect(() => {
    if (refusal === undefined) return;
    if (refusal.at instanceof HTMLElement) return refusal.at.focus();
    // Where it is seen, whoever types goes on where they were.
    if (notice.current !== null && !isInSight(notice.current)) notice.current.focus();
  }, [refusal]);

  const onSubmit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (mutation.isPending) return;
    setErrors({});
    setRest(null);
    const data = new FormData(event.currentTarget);
    const seen = look(event.currentTarget, t);
    if (seen.isUnfit || (onlyComplete && seen.lacking.length > 0)) return show(new Refused([]), seen);
    const element = event.currentTarget;
    const sent = contentOf(element);
    mutation.mutate(data, {
      onError: (error) => show(error, seen),
      onSuccess: () => {
        ahead.current = contentOf(element) === sent ? undefined : sent;
      },
    });
  };

  return (
    <AriaForm ref={form} className="form" onSubmit={onSubmit} validationBehavior="aria">
      {rest !== null && (
        <div ref={notice} className="form-notice" tabIndex={-1}>
          <Notice tone="bad">{rest}</Notice>
        </div>
      )}
      <Corrected value={correct}>
        <FieldErrors value={errors}>{children}</FieldErrors>
      </Corrected>
      <div className="form-actions">
        <Button type="submit" look={buttonLook} autoFocus={isReady} isPending={mutation.isPending} isDisabled={disabled}>
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

/** What was chosen, where it is one of these. */
export function chosen<T extends string>(data: FormData, name: string, options: readonly T[]): T | undefined {
  return options.find((option) => option === data.get(name));
}

/** An object without the fields that are undefined. */
export function compact<T extends object>(fields: { [Key in keyof T]: T[Key] | undefined }): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

/** Whether a body says nothing: what is undefined is not sent. */
export const isEmpty = (body: object): boolean => Object.values(body).every((value) => value === undefined);

// One kind of form for everything: it sends, shows that it does, and puts what
// the API says at the fields that it speaks of.

import { Form as AriaForm } from "react-aria-components/Form";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState, type FormEvent, type ReactNode } from "react";
import { useT } from "../i18n";
import { queries } from "../api/queries";
import { baseField, isProblemOf, ProblemError, sentence, type FieldError } from "../api/problem";
import { useErrorText } from "./errors";
import { FieldErrors } from "./field-errors";
import { Button } from "./Button";
import { Notice } from "./Notice";

/** What a form refuses before it asks anybody. */
export class Refused extends Error {
  constructor(readonly errors: FieldError[]) {
    super(errors.map((error) => error.message).join(" "));
  }
}

interface Props {
  children: ReactNode;
  submit: string;
  look?: "primary" | "danger";
  /** Beside the button that sends. */
  extra?: ReactNode;
  disabled?: boolean;
  send: (data: FormData, form: HTMLFormElement) => Promise<unknown>;
}

export function Form({ children, submit, look = "primary", extra, disabled = false, send }: Props) {
  const t = useT();
  const errorText = useErrorText();
  const form = useRef<HTMLFormElement>(null);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [rest, setRest] = useState<string | null>(null);
  const mutation = useMutation({ mutationFn: (data: FormData) => send(data, form.current as HTMLFormElement) });

  const show = (error: unknown) => {
    // Somebody else was faster: the page shows what it is now.
    if (isProblemOf(error, "changed-meanwhile")) void queries.invalidateQueries();
    const known = new Set(Array.from(form.current?.elements ?? [], (element) => element.getAttribute("name")));
    const list = error instanceof ProblemError || error instanceof Refused ? error.errors : [];
    const at: Record<string, string> = {};
    const others: string[] = [];
    for (const { field, message } of list) {
      const name = [field, baseField(field)].find((name) => known.has(name));
      if (name === undefined) others.push(`${field}: ${message}`);
      else at[name] = at[name] === undefined ? sentence(message) : `${at[name]} ${sentence(message)}`;
    }
    setErrors(at);
    if (others.length > 0) setRest(others.map(sentence).join(" "));
    else setRest(Object.keys(at).length > 0 ? null : errorText(error));
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
    mutation.mutate(new FormData(event.currentTarget), { onError: show });
  };

  return (
    <AriaForm ref={form} className="form" onSubmit={onSubmit} validationBehavior="aria">
      {rest !== null && <Notice tone="bad">{rest}</Notice>}
      <FieldErrors value={errors}>{children}</FieldErrors>
      <div className="form-actions">
        <Button type="submit" look={look} isPending={mutation.isPending} isDisabled={disabled}>
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

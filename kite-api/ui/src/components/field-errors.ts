import { createContext, useContext } from "react";

/** What is wrong with which field, by the fields' names. It goes, or becomes another, as
 * the field is corrected, and not before: if it went away as soon as the field is left,
 * the button would move from under the pointer that is about to press it. */
export const FieldErrors = createContext<Readonly<Record<string, string>>>({});

/** Is told of fields that are changed in a way of which the browser tells nobody. */
export const Corrected = createContext<(name: string) => void>(() => undefined);

/** What is wrong with one field, as its component takes it. */
export function useFieldError(name: string | undefined): { message: string | undefined; isInvalid: boolean } {
  const errors = useContext(FieldErrors);
  const message = name === undefined ? undefined : errors[name];
  return { message, isInvalid: message !== undefined };
}

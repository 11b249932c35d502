import { FieldError } from "react-aria-components/FieldError";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { Text } from "react-aria-components/Text";
import { TextArea } from "react-aria-components/TextArea";
import { TextField, type TextFieldProps } from "react-aria-components/TextField";
import type { ReactNode } from "react";
import { useFieldError } from "./field-errors";

interface FieldProps extends Omit<TextFieldProps, "children" | "className"> {
  name: string;
  label: string;
  hint?: ReactNode;
  placeholder?: string;
  /** More than one line. */
  rows?: number;
  /** Buttons behind the input. */
  after?: ReactNode;
  /** For machines: no capitals and no spelling help. */
  exact?: boolean;
  /** Further attributes of the input. */
  inputProps?: Record<string, string>;
}

/** Marks an input that has lost what was typed in it. */
export const LOST = "data-lost";

/** What an end was before, as an attribute of its input: it may be over. */
export const BEFORE = "data-before";

/** What a name that goes into addresses looks like, as `pattern` of a field. */
export const LABEL = "[a-z0-9]([a-z0-9\\-]*[a-z0-9])?";

/** The same where there may be dots in it. */
export const DOTTED = "[a-z0-9]([a-z0-9.\\-]*[a-z0-9])?";

/** What a username looks like, as `pattern` of a field. */
export const USERNAME = "[a-z][a-z0-9\\-]{0,30}[a-z0-9]";

/** A labelled input with room for a hint and for what is wrong with it. */
export function Field({ label, hint, placeholder = "", rows, after, exact = false, inputProps = {}, ...rest }: FieldProps) {
  const { message, isInvalid } = useFieldError(rest.name);
  const shared = { placeholder, ...inputProps, ...(exact ? { autoCapitalize: "none", spellCheck: false } : {}) };
  const control = rows === undefined ? <Input {...shared} /> : <TextArea rows={rows} {...shared} />;
  return (
    <TextField {...rest} className="field" validationBehavior="aria" isInvalid={isInvalid}>
      <Label>{label}</Label>
      {after === undefined ? (
        control
      ) : (
        <div className="with-after">
          {control}
          {after}
        </div>
      )}
      {hint !== undefined && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="error">{message}</FieldError>
    </TextField>
  );
}

/** A name of a machine kind: no capitals, no spelling help. */
export function NameField(props: FieldProps) {
  return <Field autoComplete="off" exact {...props} />;
}

/** A time in the future: the end of something. */
/** Browsers let one write years of six digits, which no other program reads. */
const LATEST = "9999-12-31T23:59";

export function EndField({ defaultEnd = "", ...rest }: Omit<FieldProps, "type" | "defaultValue"> & { defaultEnd?: string }) {
  return <Field type="datetime-local" defaultValue={defaultEnd} inputProps={{ [BEFORE]: defaultEnd, max: LATEST }} {...rest} />;
}

/** Public keys, one per line. */
export function KeysField({ defaultKeys, ...rest }: Omit<FieldProps, "rows"> & { defaultKeys?: readonly string[] }) {
  return (
    <Field
      autoComplete="off"
      exact
      rows={3}
      placeholder="ssh-ed25519 AAAA…"
      defaultValue={(defaultKeys ?? []).join("\n")}
      {...rest}
    />
  );
}

/** The lines of a text that say something. */
export function lines(text: FormDataEntryValue | null): string[] {
  return String(text ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

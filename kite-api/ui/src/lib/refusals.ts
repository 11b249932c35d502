// What the API says when it refuses, in the language of whoever reads it. It tells
// people in English; a language that has a table knows the sentences that are always
// the same but for what is filled in, and has words of its own for each kind of problem.

import { sentence, type FieldError } from "../api/problem";

type Table = Readonly<Record<string, string>>;

/** One language's words for refusals. */
export interface Refusals {
  /** By the kind of problem. */
  kinds: Table;
  /** Of a kind that a later API has. */
  other: string;
  /** What leads in what is known in English only. */
  original: string;
  /** By what the API says: `{name}` stands for any text, or for one that `parts` has
   * under that name, digits at its end aside. */
  said: Table;
  parts: Readonly<Record<string, Table>>;
}

let source: (() => Promise<Refusals>) | undefined;
let spoken: Refusals | undefined;
let isNeeded = false;

/** The words of the language that is read; none for English, and where they cannot be had. */
export const refusalsNow = (): Refusals | undefined => spoken;

/** Gets them before a refusal is told. Most visits have none, so no page waits for them. */
export async function haveRefusals(): Promise<void> {
  isNeeded = true;
  if (spoken !== undefined || source === undefined) return;
  const asked = source;
  const words = await asked().catch(() => undefined);
  if (source === asked) spoken = words;
}

/** Refusals are told in another language from now on; those that are shown already, too. */
export async function tellRefusalsBy(words: (() => Promise<Refusals>) | undefined): Promise<void> {
  if (source === words) return;
  source = words;
  spoken = undefined;
  if (isNeeded) await haveRefusals();
}

/** A refusal, as far as words go. */
export interface Refusal {
  kind: string;
  /** To the letter. */
  detail: string;
  errors: readonly FieldError[];
}

interface Template {
  pattern: RegExp;
  words: string;
}

const templates = new Map<Table, Template[]>();

function templatesOf(table: Table): Template[] {
  const known = templates.get(table);
  if (known !== undefined) return known;
  const made = Object.entries(table)
    .filter(([said]) => said.includes("{"))
    .map(([said, words]) => {
      const escaped = said.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
      return { pattern: new RegExp(`^${escaped.replace(/\{(\w+)\}/g, "(?<$1>.+?)")}$`, "s"), words };
    });
  templates.set(table, made);
  return made;
}

/** What `text` is in the other language; undefined where that is not known. */
function known(text: string, table: Table, parts: Refusals["parts"]): string | undefined {
  if (Object.hasOwn(table, text)) return table[text];
  for (const { pattern, words } of templatesOf(table)) {
    const given = pattern.exec(text)?.groups;
    if (given === undefined) continue;
    const values = Object.entries(given).map(([name, value]) => {
      const part = parts[name.replace(/\d+$/, "")];
      return [name, part === undefined ? value : known(value, part, parts)] as const;
    });
    if (values.some(([, value]) => value === undefined)) continue;
    const filled = new Map(values);
    return words.replace(/\{(\w+)\}/g, (whole, name: string) => filled.get(name) ?? whole);
  }
  return undefined;
}

/** What is said of one thing in a refusal of this kind: what is not known has the
 * kind's words before it. Without a table it is said as it is. */
export function refusalText(text: string, kind: string, refusals: Refusals | undefined): string {
  if (refusals === undefined) return sentence(text);
  const { kinds, other, original, said, parts } = refusals;
  const beginning = Object.hasOwn(kinds, kind) ? kinds[kind] : other;
  return known(text, said, parts) ?? `${beginning} ${original} ${sentence(text)}`;
}

/** Whether `detail` only repeats what is said of the fields. */
function isOfFields({ detail, errors }: Refusal): boolean {
  const named = errors.filter(({ field }) => field !== "");
  const ofAll = errors.filter(({ field }) => field === "").map(({ message }) => message);
  const list = named.map(({ field }) => field).join(", ");
  const [only] = named;
  if (only === undefined) return errors.length > 0 && detail === ofAll.join("; ");
  const ways =
    named.length === 1
      ? [`${only.field}: ${only.message}`, `the ${only.field} ${only.message}`]
      : [`${named.length} fields need another value: ${list}`];
  return ways.some((way) => detail === [way, ...ofAll].join("; "));
}

/** A whole refusal. */
export function problemText(refusal: Refusal, refusals: Refusals | undefined): string {
  const { detail, errors, kind } = refusal;
  if (refusals === undefined || !isOfFields(refusal)) return refusalText(detail, kind, refusals);
  const said = errors.map(({ field, message }) => {
    const text = refusalText(message, kind, refusals);
    return field === "" ? text : `${field}: ${text}`;
  });
  return said.join(" ");
}

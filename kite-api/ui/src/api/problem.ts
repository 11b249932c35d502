// Refusals of the API (RFC 9457), and what becomes of them in forms.

export interface FieldError {
  field: string;
  message: string;
}

interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail?: string;
  errors?: FieldError[];
}

const PREFIX = "urn:kite:problem:";

/** Such as `quota-exceeded`, by a problem's type. */
export const kindOf = (type: string): string => (type.startsWith(PREFIX) ? type.slice(PREFIX.length) : type);

/** The API refused. */
export class ProblemError extends Error {
  readonly status: number;
  /** Such as `quota-exceeded`. */
  readonly kind: string;
  /** What it says, to the letter. */
  readonly detail: string;
  readonly errors: FieldError[];
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(
    private readonly document: ProblemDocument,
    retryAfter?: number,
  ) {
    super(sentence(document.detail ?? document.title));
    this.status = document.status;
    this.kind = kindOf(document.type);
    this.detail = document.detail ?? document.title;
    this.errors = document.errors ?? [];
    this.retryAfter = retryAfter;
  }

  /** The same for a form that has one `item` of a list, whose fields are called there
   * as the item calls them. */
  within(item: string): ProblemError {
    const prefix = `${item}.`;
    return this.called((field) => (field.startsWith(prefix) ? field.slice(prefix.length) : field));
  }

  /** The same for a form that calls fields otherwise. */
  called(nameOf: (field: string) => string): ProblemError {
    const errors = this.errors.map(({ field, message }) => ({ field: nameOf(field), message }));
    return new ProblemError({ ...this.document, errors }, this.retryAfter);
  }

  static of(response: Response, body: unknown): ProblemError {
    const retryAfter = Number(response.headers.get("retry-after")) || undefined;
    const document = isProblem(body)
      ? body
      : { type: "", title: `The server answered ${response.status}`, status: response.status };
    return new ProblemError(document, retryAfter);
  }
}

/** No answer came. */
export class OfflineError extends Error {
  constructor() {
    super("offline");
  }
}

function isProblem(body: unknown): body is ProblemDocument {
  return typeof body === "object" && body !== null && "status" in body && "title" in body;
}

export function isProblemOf(error: unknown, kind: string): boolean {
  return error instanceof ProblemError && error.kind === kind;
}

export function isMissing(error: unknown): boolean {
  return error instanceof ProblemError && (error.status === 404 || error.status === 405);
}

/** Whether it may be otherwise the next time without anybody's doing. */
export const isPassing = (error: unknown): boolean =>
  error instanceof OfflineError || (error instanceof ProblemError && (error.status >= 500 || error.status === 429));

/** "two words" becomes "Two words." */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (!trimmed) return trimmed;
  const start = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(start) ? start : `${start}.`;
}

/** `spec.sshPublicKeys[0]` is the field `sshPublicKeys`. */
export function baseField(field: string): string {
  return field.replace(/^spec\./, "").split(/[[.]/)[0] ?? field;
}

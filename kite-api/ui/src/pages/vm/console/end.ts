// Why a console is over, for whoever sat at it.

import { kindOf, sentence } from "../../../api/problem";
import type { Translate } from "../../../i18n";
import type { Refusal } from "../../../lib/refusals";
import { endText as endOfSession } from "../../sessions/ends";

/** Close codes of the API, in a word. */
const ENDS = {
  1000: "closed",
  1001: "restarting",
  // The browser's own: nobody said goodbye.
  1006: "broken",
  4401: "session-over",
  4403: "forbidden",
  4408: "timed-out",
  4409: "taken",
  4410: "ended",
  4500: "failed",
} as const;

/** What came to its end, and the console with it. */
export type Cause = "vmStopped" | "vmRestarted" | "vmGone" | { exited: number } | { killed: string };

/** How a console ended. */
export interface End {
  /** "left": whoever sat at it wanted so. */
  how: (typeof ENDS)[keyof typeof ENDS] | "left" | "refused" | "unreadable" | "unknown";
  code: number;
  /** What the API says of it; may be empty. */
  why: string;
  /** Where the API refused it: of which kind that is. */
  kind?: string;
  /** Who ended it, where somebody did. */
  by?: string | undefined;
  /** Where the API tells. */
  cause?: Cause | undefined;
}

export const LEFT: End = { how: "left", code: 1000, why: "" };
/** What the VM's side sends cannot be shown. */
export const UNREADABLE: End = { how: "unreadable", code: 1000, why: "" };

/** What the API says beside the console's bytes. */
export interface Words {
  ready?: true;
  /** With `ready`: what is shown is kept to be replayed. */
  recorded?: boolean;
  error?: { type?: string; detail?: string; title?: string };
  ended?: { by: string; reason: string };
  cause?: unknown;
}

/** What the API names as a cause; one that this page has no words for is none. */
function causeOf(cause: unknown): Cause | undefined {
  if (cause === "vmStopped" || cause === "vmRestarted" || cause === "vmGone") return cause;
  const { exited, killed } = Object(cause) as { exited?: unknown; killed?: unknown };
  if (typeof exited === "number") return { exited };
  return typeof killed === "string" ? { killed } : undefined;
}

/** How a console ended, by its close frame and what was said last before it. */
export function endOf(code: number, reason: string, { error, ended, cause }: Words): End {
  const how = Object.hasOwn(ENDS, code) ? ENDS[code as keyof typeof ENDS] : "unknown";
  if (how === "ended" && ended) return { how, code, why: ended.reason, by: ended.by };
  const why = error?.detail ?? error?.title ?? reason;
  const kind = kindOf(error?.type ?? "");
  return { how: how === "failed" && error ? "refused" : how, code, why, kind, cause: causeOf(cause) };
}

/** What happens without anything being wrong. */
const EXPECTED: ReadonlySet<End["how"]> = new Set(["closed", "left", "restarting", "timed-out", "ended"]);

/** Whether somebody should look at what happened. */
export const isBad = ({ how, cause }: End): boolean => cause === undefined && !EXPECTED.has(how);

/** `refusalText` says what the API does when it refuses. */
export function endText(end: End, me: string, t: Translate, refusalText: (refusal: Refusal) => string): string {
  const { how, code, why, kind = "", by, cause } = end;
  if (cause !== undefined) {
    if (typeof cause === "string") return t(`console.end.${cause}`);
    return "exited" in cause ? t("console.end.exited", { status: cause.exited }) : t("console.end.killed", { signal: cause.killed });
  }
  const said = kind === "" ? sentence(endOfSession({ why }, t) ?? "") : refusalText({ kind, detail: why, errors: [] });
  switch (how) {
    case "ended": {
      const who = by === undefined ? t("console.end.ended") : by === me ? t("console.end.endedSelf") : t("console.end.endedBy", { by });
      return why ? `${who} ${t("console.end.reason", { why })}` : who;
    }
    // These say it all.
    case "closed":
    case "left":
    case "restarting":
    case "broken":
    case "taken":
    case "forbidden":
    case "unreadable":
      return t(`console.end.${how}`);
    case "session-over":
    case "timed-out":
    case "refused":
    case "failed":
      return `${t(`console.end.${how}`)} ${said}`.trim();
    case "unknown":
      return `${t("console.end.unknown", { code })} ${said}`.trim();
  }
}

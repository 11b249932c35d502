// Times and spans for people.

import { signal } from "./signal";

/** How often what time it is becomes another, in milliseconds. */
const TICK_MS = 10_000;

const now = signal(Date.now());
setInterval(() => now.set(Date.now()), TICK_MS);

/** What time it is, for a component that says how far away something is. */
export const useNow = now.use;

/** "3 minutes ago" of what has happened, also where the server's clock is ahead. */
export function ago(time: string, tag: string, now = Date.now()): string {
  return relative(time, tag, Math.max(now, Date.parse(time)));
}

/** "3 minutes ago", "in 2 days". */
export function relative(time: string, tag: string, now = Date.now()): string {
  const seconds = (Date.parse(time) - now) / 1000;
  const format = new Intl.RelativeTimeFormat(tag, { numeric: "auto" });
  const steps: [number, Intl.RelativeTimeFormatUnit][] = [
    [60, "second"],
    [3600, "minute"],
    [86_400, "hour"],
    [86_400 * 30, "day"],
    [86_400 * 365, "month"],
    [Number.POSITIVE_INFINITY, "year"],
  ];
  let unit = 1;
  for (const [until, name] of steps) {
    if (Math.abs(seconds) < until) return format.format(Math.round(seconds / unit), name);
    unit = until === 60 ? 60 : until;
  }
  return format.format(0, "second");
}

export function dateTime(time: string, tag: string): string {
  return new Intl.DateTimeFormat(tag, { dateStyle: "medium", timeStyle: "short" }).format(new Date(time));
}

/** The value of `<input type="datetime-local">` as the API writes times. */
export function fromLocalInput(value: string): string | null {
  return value ? new Date(value).toISOString() : null;
}

/** And back. */
export function toLocalInput(time: string | undefined): string {
  if (!time) return "";
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** "3:07" or "1:03:07". */
export function clock(seconds: number): string {
  const two = (part: number) => String(Math.floor(part)).padStart(2, "0");
  const minutes = seconds / 60;
  return minutes < 60
    ? `${Math.floor(minutes)}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

const SECONDS: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 0.001 };

/** `604800s` as "7 days"; what is no such span stays as it is. */
export function duration(span: string, tag: string): string {
  let rest = 0;
  for (const [, count, unit] of span.matchAll(/([0-9.]+)(ms|h|m|s)/g)) rest += Number(count) * (SECONDS[unit ?? ""] ?? 0);
  if (rest === 0) return span;
  const parts: string[] = [];
  for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]] as const) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(new Intl.NumberFormat(tag, { style: "unit", unit, unitDisplay: "long" }).format(count));
  }
  return parts.join(" ");
}

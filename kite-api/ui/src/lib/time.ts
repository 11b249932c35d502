// Times and spans for people.

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

/** A whole time as the API and the controller write it (RFC 3339), and no part of
 * something longer. */
const STAMP = /(?<![\w.:-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?![\w:-]|\.\d)/g;

/** A text with the times in it as whoever reads it writes them, by their own clock. */
export function withLocalTimes(text: string, tag: string): string {
  return text.replace(STAMP, (stamp) => (Number.isNaN(Date.parse(stamp)) ? stamp : dateTime(stamp, tag)));
}

/** Whether what `<input type="datetime-local">` holds is over. */
export const isOver = (value: string, now = Date.now()): boolean => value !== "" && new Date(value).getTime() <= now;

/** A time such as one may write into `<input type="datetime-local">`, which is in the
 * browser's language and not in the page's. */
export function exampleTime(now = Date.now()): string {
  const example = new Date(new Date(now).getFullYear() + 1, 11, 1, 14);
  const [day, time] = [{ year: "numeric", month: "2-digit", day: "2-digit" }, { hour: "2-digit", minute: "2-digit" }] as const;
  return new Intl.DateTimeFormat(undefined, { ...day, ...time }).format(example);
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

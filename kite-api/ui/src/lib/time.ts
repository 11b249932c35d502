// Times and spans for people.

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

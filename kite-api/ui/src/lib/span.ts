// How long something takes or took, for people.

const SECONDS: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 0.001 };

/** `604800s` as "7 days"; what is no such span stays as it is. */
export function duration(span: string, tag: string): string {
  let seconds = 0;
  for (const [, count, unit] of span.matchAll(/([0-9.]+)(ms|h|m|s)/g)) seconds += Number(count) * (SECONDS[unit ?? ""] ?? 0);
  return seconds === 0 ? span : inUnits(seconds, tag).join(" ");
}

/** How long something took, by its two largest units: "3 hours 5 minutes". */
export function lasted(from: string, to: number, tag: string): string {
  const seconds = Math.floor((to - Date.parse(from)) / 1000);
  // Clocks differ.
  if (!(seconds >= 1)) return inWords(0, "second", tag);
  return inUnits(seconds, tag).slice(0, 2).join(" ");
}

const inWords = (count: number, unit: string, tag: string) =>
  new Intl.NumberFormat(tag, { style: "unit", unit, unitDisplay: "long" }).format(count);

function inUnits(seconds: number, tag: string): string[] {
  let rest = seconds;
  const parts: string[] = [];
  for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]] as const) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(inWords(count, unit, tag));
  }
  return parts;
}

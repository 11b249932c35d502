// What a browser calls itself, in two words.

const BROWSERS: readonly [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const SYSTEMS: readonly [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
];

/** `Firefox · Linux`; the program's own name for what is no browser. */
export function clientName(client: string): string {
  const name = (known: readonly [RegExp, string][]) => known.find(([pattern]) => pattern.test(client))?.[1];
  const browser = client.startsWith("Mozilla/") ? name(BROWSERS) : undefined;
  if (browser === undefined) return client;
  const system = name(SYSTEMS);
  return system === undefined ? browser : `${browser} · ${system}`;
}

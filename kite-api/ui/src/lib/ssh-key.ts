// Public keys, as people know them.

/** What its owner calls a key, or its kind and end where it has no name. */
export function keyName(key: string): string {
  const words = key.trim().split(/\s+/);
  // What its token is asked for stands before it.
  if (/^(no-touch|verify)-required\b/.test(words[0] ?? "")) words.shift();
  const [kind = "", material = "", ...name] = words;
  return name.length > 0 ? name.join(" ") : `${kind} …${material.slice(-8)}`;
}

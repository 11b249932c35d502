// Public keys, as people know them.

/** What its owner calls a key, or its kind and end where it has no name. */
export function keyName(key: string): string {
  const [kind = "", material = "", ...name] = key.trim().split(/\s+/);
  return name.length > 0 ? name.join(" ") : `${kind} …${material.slice(-8)}`;
}

// What this browser remembers.

export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(`kite.${key}`);
  } catch {
    // Private modes of some browsers have none.
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(`kite.${key}`, value);
  } catch {
    // It holds for this visit only.
  }
}

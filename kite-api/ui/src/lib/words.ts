// Where a line of a command may be broken.

/** Words, each as pieces between which it is broken where it is longer than a line:
 * before the `@` of an address, and nowhere in a name. */
export function wordsOf(line: string): string[][] {
  return line.split(" ").map((word) => word.split(/(?=@)/));
}

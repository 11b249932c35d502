import type { Tone } from "./Notice";

/** A state in a word, with a dot that tells it apart without colour, too. */
export function Badge({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span className="badge" data-tone={tone}>
      {children}
    </span>
  );
}

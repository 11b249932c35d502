// What would be lost if the page that is shown went away, for whatever leads away from it
// without being a link: signing out takes the page with it before it could ask.

let current: (() => readonly string[]) | undefined;

/** The page that is shown says what would be lost, until it goes. */
export function watchLosses(losses: () => readonly string[]): () => void {
  current = losses;
  return () => {
    if (current === losses) current = undefined;
  };
}

/** What would be lost at this moment. */
export const lossesNow = (): readonly string[] => current?.() ?? [];

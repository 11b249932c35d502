/** What the controller says of something, which it does in English. */
export function Told({ words }: { words: string | undefined }) {
  if (words === undefined) return null;
  return (
    <small className="under" lang="en">
      {words}
    </small>
  );
}

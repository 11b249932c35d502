// A letter on a colour for each family of systems; no one's trademark.

const MARKS: Record<string, [letter: string, hue: number]> = {
  Debian: ["D", 345],
  RedHat: ["R", 215],
  Suse: ["S", 145],
  Alpine: ["A", 205],
  Arch: ["A", 195],
  Windows: ["W", 220],
};

export function FamilyMark({ family }: { family: string }) {
  const [letter, hue] = MARKS[family] ?? [family.charAt(0), 260];
  return (
    <span className="family" style={{ "--hue": hue } as React.CSSProperties} aria-hidden>
      {letter}
    </span>
  );
}

// The image's first letter on a colour for its family of systems; no one's
// trademark.

const HUES: Record<string, number> = { Debian: 345, RedHat: 215, Suse: 145, Alpine: 195, Arch: 180, Windows: 220 };

export function FamilyMark({ family, name }: { family: string; name: string }) {
  return (
    <span className="family" style={{ "--hue": HUES[family] ?? 260 } as React.CSSProperties} aria-hidden>
      {name.charAt(0).toUpperCase()}
    </span>
  );
}

import type { Tone } from "../../components/Notice";

interface Props {
  label: string;
  parts: readonly { tone: Tone; label: string; value: number }[];
  empty: string;
}

/** Parts of a whole, with a key that says them in numbers. */
export function StackedBar({ label, parts, empty }: Props) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  if (total === 0) return <p className="quiet-text">{empty}</p>;
  return (
    <figure className="stacked" aria-label={label}>
      <div className="stacked-bar" aria-hidden>
        {parts.map(
          (part) =>
            part.value > 0 && (
              <span key={part.tone} data-tone={part.tone} style={{ width: `${(part.value / total) * 100}%` }} />
            ),
        )}
      </div>
      <dl>
        {parts.map((part) => (
          <div key={part.tone} data-tone={part.tone}>
            <dt>{part.label}</dt>
            <dd>{part.value}</dd>
          </div>
        ))}
      </dl>
    </figure>
  );
}

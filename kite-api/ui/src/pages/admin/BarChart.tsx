interface Props {
  label: string;
  rows: readonly { label: string; share: number; text: string }[];
}

/** Bars beside each other's names; the numbers are text, for everybody. */
export function BarChart({ label, rows }: Props) {
  return (
    <dl className="bar-chart" aria-label={label}>
      {rows.map((row) => (
        <div key={row.label}>
          <dt>{row.label}</dt>
          <dd>
            <span className="track" aria-hidden>
              <span className="fill" style={{ width: `${Math.min(1, row.share) * 100}%` }} />
            </span>
            <span className="bar-value">{row.text}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

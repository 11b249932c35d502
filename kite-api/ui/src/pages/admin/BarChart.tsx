interface Props {
  label: string;
  rows: readonly { label: string; share: number; text: string }[];
}

/** Bars beside each other's names; the numbers are text, for everybody. */
export function BarChart({ label, rows }: Props) {
  return (
    <figure aria-label={label}>
      <dl className="bar-chart">
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
    </figure>
  );
}

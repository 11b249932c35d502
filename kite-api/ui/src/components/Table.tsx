import type { ReactNode } from "react";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  /** The column that names the row. */
  head?: boolean;
  /** Buttons: without a title to be seen. */
  actions?: boolean;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  empty: ReactNode;
}

/** Rows and columns; on a phone each row is a card that names its cells. */
export function Table<T>({ label, columns, rows, rowKey, empty }: Props<T>) {
  if (rows.length === 0) return <p className="quiet-text">{empty}</p>;
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.title} scope="col" className={column.actions ? "cell-actions" : undefined}>
              {column.actions ? <span className="visually-hidden">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            {columns.map((column) => {
              const Cell = column.head ? "th" : "td";
              return (
                <Cell
                  key={column.title}
                  {...(column.head ? { scope: "row" } : {})}
                  data-title={column.actions || column.head ? undefined : column.title}
                  className={column.actions ? "cell-actions" : undefined}
                >
                  <div className="value">{column.cell(row)}</div>
                </Cell>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

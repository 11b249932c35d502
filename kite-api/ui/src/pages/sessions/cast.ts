// A recording of a terminal: asciicast v2, a line of JSON for each thing that
// happened.

export interface Moment {
  /** Seconds since the recording began. */
  at: number;
  /** What was printed. */
  printed?: string;
  /** The size that the terminal got. */
  size?: Size;
}

interface Size {
  cols: number;
  rows: number;
}

export interface Cast extends Size {
  moments: Moment[];
  /** Seconds that it lasts. */
  length: number;
}

/** Larger terminals are not believed. */
const MOST = 1000;

function sizeOf(cols: unknown, rows: unknown): Size | undefined {
  const fits = (side: unknown): side is number => Number.isInteger(side) && Number(side) >= 1 && Number(side) <= MOST;
  return fits(cols) && fits(rows) ? { cols, rows } : undefined;
}

function momentOf(line: string): Moment | undefined {
  // The last line of a session that was cut off may be half a one.
  try {
    const [at, kind, data] = JSON.parse(line) as [unknown, unknown, unknown];
    if (typeof at !== "number" || typeof data !== "string") return undefined;
    if (kind === "o") return { at, printed: data };
    const [cols, rows] = data.split("x").map(Number);
    const size = kind === "r" ? sizeOf(cols, rows) : undefined;
    return size && { at, size };
  } catch {
    return undefined;
  }
}

/** Reads a recording; nothing if it is none. */
export function readCast(text: string): Cast | undefined {
  const [first = "", ...lines] = text.split("\n");
  try {
    const header = JSON.parse(first) as { version?: unknown; width?: unknown; height?: unknown };
    // Where a terminal never said how large it is, it has no size.
    const size = sizeOf(header.width || 80, header.height || 24);
    if (header.version !== 2 || size === undefined) return undefined;
    const moments = lines.map(momentOf).filter((moment) => moment !== undefined);
    return { ...size, moments, length: moments.at(-1)?.at ?? 0 };
  } catch {
    return undefined;
  }
}

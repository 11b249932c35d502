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
  /** Whether there is more of it than can be played here. */
  isCut: boolean;
}

/** Whether nothing was printed. */
export const isEmpty = ({ moments }: Cast): boolean => moments.every(({ printed = "" }) => printed === "");

/** What is taken of a recording at most: people may record what they like, and all
 * of it is in the memory of the page. */
export interface Limits {
  bytes: number;
  moments: number;
  /** Of when something may have happened. */
  seconds: number;
  /** Characters of one line. */
  line: number;
}

export const LIMITS: Limits = { bytes: 32 * 2 ** 20, moments: 400_000, seconds: 7 * 86_400, line: 2 ** 20 };

/** Larger terminals are not believed. */
const MOST = { cols: 1000, rows: 300 };
/** How long the page may be kept from doing anything else, in milliseconds. */
const SLICE_MS = 8;

function sizeOf(cols: unknown, rows: unknown): Size | undefined {
  const fits = (side: unknown, most: number): side is number =>
    Number.isInteger(side) && Number(side) >= 1 && Number(side) <= most;
  return fits(cols, MOST.cols) && fits(rows, MOST.rows) ? { cols, rows } : undefined;
}

function headerOf(line: string): Size | undefined {
  try {
    const header = JSON.parse(line) as { version?: unknown; width?: unknown; height?: unknown };
    // Where a terminal never said how large it is, it has no size.
    return header.version === 2 ? sizeOf(header.width || 80, header.height || 24) : undefined;
  } catch {
    return undefined;
  }
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

/** Lets the page do what else it has to do. Not by a timer: browsers hold those of
 * pages back that nobody sees. */
function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/** The lines of a stream, until there are more bytes, or longer lines, than there may
 * be: then `onCut` is called instead. */
async function* linesOf(stream: ReadableStream<Uint8Array>, limits: Limits, onCut: () => void): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      bytes += value?.length ?? 0;
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      yield* lines;
      if (done) return;
      if (bytes > limits.bytes || rest.length > limits.line) return onCut();
    }
  } finally {
    // Nobody wants what may still come.
    await reader.cancel();
  }
}

/** Reads a recording as it comes; null if it is none. */
export async function readCast(stream: ReadableStream<Uint8Array>, limits = LIMITS): Promise<Cast | null> {
  let cast: Cast | undefined;
  let isCut = false;
  let until = performance.now() + SLICE_MS;
  const lines = linesOf(stream, limits, () => {
    isCut = true;
  });
  for await (const line of lines) {
    if (performance.now() > until) {
      await breathe();
      until = performance.now() + SLICE_MS;
    }
    if (cast === undefined) {
      const size = headerOf(line);
      if (size === undefined) return null;
      cast = { ...size, moments: [], length: 0, isCut: false };
      continue;
    }
    const moment = momentOf(line);
    if (moment === undefined) continue;
    if (cast.moments.length >= limits.moments || moment.at > limits.seconds) {
      isCut = true;
      break;
    }
    // Nothing happens before what was written down before it.
    moment.at = Math.max(moment.at, cast.length);
    cast.length = moment.at;
    cast.moments.push(moment);
  }
  return cast === undefined ? null : { ...cast, isCut };
}

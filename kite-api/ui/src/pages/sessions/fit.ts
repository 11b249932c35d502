// How large the letters of a recording are, so that it fills the room that there is.

export interface Room {
  width: number;
  height: number;
}

/** Smaller letters cannot be read: then it is scrolled. Larger ones are a nuisance. */
const LEAST = 6;
const MOST = 32;
/** What is lower than this is rather scrolled than made smaller still. */
const READABLE = 10;
/** Letters have no size between. */
const STEP = 0.25;

/** The size of letters with which `cols` and `rows` of them are as large as fits into the
 * room, where a letter of one pixel takes up `cell`. */
export function fontSizeFor({ width, height }: Room, cell: Room, cols: number, rows: number): number {
  const byWidth = width / (cols * cell.width);
  const byHeight = height / (rows * cell.height);
  const size = Math.min(byWidth, Math.max(byHeight, READABLE), MOST);
  return Math.max(LEAST, Math.floor(size / STEP) * STEP);
}

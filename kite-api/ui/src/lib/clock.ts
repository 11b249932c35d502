// How far into something one is.

/** "3:07" or "1:03:07"; with tenths "3:07.4". */
export function clock(seconds: number, withTenths = false): string {
  const two = (part: number) => String(Math.floor(part)).padStart(2, "0");
  // What is written down to the millisecond is not less for being no binary fraction.
  const tenths = withTenths ? `.${Math.floor(seconds * 10 + 1e-6) % 10}` : "";
  const whole = withTenths ? Math.floor(seconds + 1e-7) : seconds;
  const minutes = whole / 60;
  return minutes < 60
    ? `${Math.floor(minutes)}:${two(whole % 60)}${tenths}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}${tenths}`;
}

/** The kite. */
export function Logo({ size }: { size: number }) {
  return <img src="/icon.svg" alt="" width={size} height={size} className="logo" />;
}

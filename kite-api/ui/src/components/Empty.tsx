import type { ReactNode } from "react";
import { Logo } from "./Logo";

/** In the place of a list with nothing in it: what to do about that. */
export function Empty({ title, children, action }: { title: string; children: ReactNode; action?: ReactNode }) {
  return (
    <section className="empty">
      <Logo size={64} />
      <h2>{title}</h2>
      <p>{children}</p>
      {action}
    </section>
  );
}

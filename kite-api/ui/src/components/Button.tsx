import { Button as AriaButton, type ButtonProps as AriaProps } from "react-aria-components/Button";
import LoaderCircle from "lucide-react/icons/loader-circle";
import type { ReactNode } from "react";

export interface ButtonProps extends Omit<AriaProps, "children" | "className"> {
  children?: ReactNode;
  /** How much it asks for attention. */
  look?: "primary" | "plain" | "quiet" | "danger";
  icon?: ReactNode;
  small?: boolean;
}

/** A button that shows when its work is under way. */
export function Button({ children, look = "plain", icon, small = false, ...rest }: ButtonProps) {
  const only = children === undefined ? " icon-only" : "";
  return (
    <AriaButton {...rest} className={`button ${look}${small ? " small" : ""}${only}`}>
      {rest.isPending ? <LoaderCircle className="spin" aria-hidden /> : icon}
      {children}
    </AriaButton>
  );
}

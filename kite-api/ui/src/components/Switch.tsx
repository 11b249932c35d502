import { Switch as AriaSwitch } from "react-aria-components/Switch";

interface Props {
  name: string;
  children: string;
  hint?: string;
  defaultSelected?: boolean;
  onChange?: (on: boolean) => void;
}

/** On or off. */
export function Switch({ name, children, hint, defaultSelected = false, onChange }: Props) {
  return (
    <AriaSwitch className="switch" name={name} value="on" defaultSelected={defaultSelected} {...(onChange ? { onChange } : {})}>
      <span className="switch-track" aria-hidden />
      <span>
        {children}
        {hint !== undefined && <small className="hint">{hint}</small>}
      </span>
    </AriaSwitch>
  );
}

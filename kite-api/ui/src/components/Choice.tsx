import { FieldError } from "react-aria-components/FieldError";
import { Label } from "react-aria-components/Label";
import { Radio, RadioGroup } from "react-aria-components/RadioGroup";
import type { ReactNode } from "react";
import { useFieldError } from "./field-errors";

export interface Option {
  value: string;
  title: ReactNode;
  detail?: ReactNode;
  icon?: ReactNode;
  disabled?: boolean;
}

interface Props {
  name: string;
  label: string;
  options: readonly Option[];
  value?: string;
  defaultValue?: string;
  onChange?: (value: string) => void;
}

/** Cards of which one is chosen. */
export function Choice({ name, label, options, ...rest }: Props) {
  const { message, isInvalid } = useFieldError(name);
  return (
    <RadioGroup name={name} className="choice" isInvalid={isInvalid} {...rest}>
      <Label>{label}</Label>
      <div className="choice-cards">
        {options.map((option) => (
          <Radio key={option.value} value={option.value} className="choice-card" isDisabled={option.disabled ?? false}>
            {option.icon}
            <span>
              <strong>{option.title}</strong>
              {option.detail !== undefined && <small>{option.detail}</small>}
            </span>
          </Radio>
        ))}
      </div>
      <FieldError className="error">{message}</FieldError>
    </RadioGroup>
  );
}

import { Button } from "react-aria-components/Button";
import { FieldError } from "react-aria-components/FieldError";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Select as AriaSelect, SelectValue } from "react-aria-components/Select";
import { Text } from "react-aria-components/Text";
import { useContext } from "react";
import { Corrected, useFieldError } from "./field-errors";
import ChevronDown from "lucide-react/icons/chevron-down";

interface Props {
  name?: string;
  /** Seen, or only heard. */
  label?: string;
  ariaLabel?: string;
  hint?: string;
  options: readonly { value: string; text: string }[];
  value?: string;
  defaultValue?: string;
  onChange?: (value: string) => void;
  isDisabled?: boolean;
  /** Where its list is shown: that which fills the screen hides all else. */
  container?: Element | undefined;
}

/** One of few words. */
export function Select({ name, label, ariaLabel, hint, options, value, defaultValue, onChange, isDisabled, container }: Props) {
  const { message, isInvalid } = useFieldError(name);
  const corrected = useContext(Corrected);
  const choose = (value: string) => {
    if (name !== undefined) corrected(name);
    onChange?.(value);
  };
  return (
    <AriaSelect
      isInvalid={isInvalid}
      className="field select"
      {...(name === undefined ? {} : { name })}
      {...(ariaLabel === undefined ? {} : { "aria-label": ariaLabel })}
      {...(value === undefined ? {} : { value })}
      {...(defaultValue === undefined ? {} : { defaultValue })}
      isDisabled={isDisabled ?? false}
      onChange={(key) => key !== null && choose(String(key))}
    >
      {label !== undefined && <Label>{label}</Label>}
      <Button className="select-button">
        <SelectValue />
        <ChevronDown aria-hidden />
      </Button>
      {hint !== undefined && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="error">{message}</FieldError>
      <Popover className="popover" {...(container ? { UNSTABLE_portalContainer: container } : {})}>
        <ListBox className="menu" items={options}>
          {(option) => (
            <ListBoxItem className="menu-item" id={option.value}>
              {option.text}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

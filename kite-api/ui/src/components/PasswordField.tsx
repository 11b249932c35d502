import Eye from "lucide-react/icons/eye";
import EyeOff from "lucide-react/icons/eye-off";
import Sparkles from "lucide-react/icons/sparkles";
import { useContext, useEffect, useState, type ComponentProps } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";
import { useIsOver } from "../lib/over";
import { Field, LOST } from "./Field";
import { Corrected } from "./field-errors";

/** 16 characters that nobody takes for each other: 80 bits. */
function generate(): string {
  const alphabet = "abcdefghjkmnpqrstuvwxyz234567892";
  const random = crypto.getRandomValues(new Uint8Array(16));
  const characters = Array.from(random, (byte) => alphabet[byte % 32]).join("");
  return characters.replace(/(.{4})(?=.)/g, "$1-");
}

interface Props extends ComponentProps<typeof Field> {
  /** Whether it can think one up. */
  generates?: boolean;
  /** Is told what is in it, also what it thinks up. */
  onValue?: (value: string) => void;
}

/** A password that can be looked at. */
export function PasswordField({ generates = false, onValue, ...rest }: Props) {
  const t = useT();
  const [shown, setShown] = useState(false);
  const [value, setValue] = useState("");
  useEffect(() => onValue?.(value), [value, onValue]);
  // Of what is typed when a session ends, passwords alone are not kept.
  const isOver = useIsOver();
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    if (!isOver || value === "") return;
    setValue("");
    setLost(true);
  }, [isOver, value]);
  // The browser tells of what is typed, not of what is thought up.
  const corrected = useContext(Corrected);
  useEffect(() => {
    if (value === "") return;
    corrected(rest.name);
    setLost(false);
  }, [value, corrected, rest.name]);
  return (
    <Field
      type={shown ? "text" : "password"}
      autoComplete="new-password"
      exact
      maxLength={1024}
      value={value}
      onChange={setValue}
      {...rest}
      {...(isLost ? { isRequired: true, hint: t("password.lost"), inputProps: { [LOST]: "" } } : {})}
      after={
        <>
          {generates && (
            <Button
              icon={<Sparkles aria-hidden />}
              onPress={() => {
                setValue(generate());
                setShown(true);
              }}
            >
              {t("password.generate")}
            </Button>
          )}
          <Button
            icon={shown ? <EyeOff aria-hidden /> : <Eye aria-hidden />}
            aria-label={t(shown ? "secret.hide" : "secret.show", { what: rest.label })}
            onPress={() => setShown(!shown)}
          />
        </>
      }
    />
  );
}

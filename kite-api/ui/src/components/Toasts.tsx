import CircleAlert from "lucide-react/icons/circle-alert";
import CircleCheck from "lucide-react/icons/circle-check";
import X from "lucide-react/icons/x";
import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from "react";
import { useT } from "../i18n";
import { useErrorText } from "./errors";
import { Button } from "./Button";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const SHOWN_MS = 6000;

/** Most that are shown at once. On a phone the latest alone is. */
const MOST = 3;

type Show = (text: string, bad?: boolean) => void;
const Context = createContext<Show>(() => undefined);

/** Short remarks that go away by themselves, and are read out. */
export function Toasts({ children }: { children: ReactNode }) {
  const t = useT();
  const [toasts, setToasts] = useState<Toast[]>([]);
  const next = useRef(0);
  const drop = useCallback((id: number) => setToasts((all) => all.filter((toast) => toast.id !== id)), []);
  const show = useCallback<Show>(
    (text, bad = false) => {
      const id = next.current++;
      // What is said again is not said twice.
      setToasts((all) => [...all.filter((toast) => toast.text !== text).slice(1 - MOST), { id, text, bad }]);
      setTimeout(() => drop(id), bad ? 2 * SHOWN_MS : SHOWN_MS);
    },
    [drop],
  );
  return (
    <Context value={show}>
      {children}
      {/* A live region that dialogs do not hide from screen readers. */}
      <div className="toasts" role="log" aria-live="polite" aria-label={t("toasts.label")} data-react-aria-top-layer>
        {toasts.map((toast) => (
          <div className="toast" key={toast.id} data-tone={toast.bad ? "bad" : "good"}>
            {toast.bad ? <CircleAlert aria-hidden /> : <CircleCheck aria-hidden />}
            <span>{toast.text}</span>
            <Button look="quiet" small icon={<X aria-hidden />} aria-label={t("close")} onPress={() => drop(toast.id)} />
          </div>
        ))}
      </div>
    </Context>
  );
}

export const useToast = (): Show => useContext(Context);

/** Shows what went wrong as a toast. */
export function useToastError(): (error: unknown) => void {
  const toast = useToast();
  const errorText = useErrorText();
  return useMemo(() => (error: unknown) => toast(errorText(error), true), [toast, errorText]);
}

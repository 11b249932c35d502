// Light or dark: the system's, unless somebody chose.

import { useState } from "react";
import { remember, remembered } from "./store";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

function read(): Theme {
  const before = remembered("theme");
  return before === "light" || before === "dark" ? before : "system";
}

/** Makes the document look so; styles/base.css does the rest. */
export function applyTheme(theme: Theme = read()): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(read);
  return [
    theme,
    (next) => {
      remember("theme", next);
      applyTheme(next);
      setTheme(next);
    },
  ];
}

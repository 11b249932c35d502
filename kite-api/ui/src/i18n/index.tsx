// The words of the pages in the language of whoever reads them.

import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";
import { remember, remembered } from "../lib/store";
import { en } from "./en";

export type Key = keyof typeof en;
export type Words = Record<Key, string>;
export type Locale = "en" | "ko";

/** How each language calls itself. */
export const LOCALES: Record<Locale, { name: string; tag: string; load: () => Promise<Words> }> = {
  en: { name: "English", tag: "en-US", load: async () => en },
  ko: { name: "한국어", tag: "ko-KR", load: async () => (await import("./ko")).ko },
};

const isLocale = (value: string | null | undefined): value is Locale =>
  value !== null && value !== undefined && Object.hasOwn(LOCALES, value);

/** The remembered language, or the first of the browser's that there is. */
function firstLocale(): Locale {
  const before = remembered("locale");
  if (isLocale(before)) return before;
  const wished = navigator.languages.map((language) => language.slice(0, 2)).find(isLocale);
  return wished ?? "en";
}

export type Values = Record<string, string | number>;
export type Translate = (key: Key, values?: Values) => string;

interface I18n {
  t: Translate;
  locale: Locale;
  tag: string;
  setLocale: (locale: Locale) => void;
}

const Context = createContext<I18n | null>(null);

function fill(text: string, values: Values | undefined): string {
  return values ? text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole)) : text;
}

export function Language({ children }: { children: ReactNode }) {
  const [locale, setLocale] = useState(firstLocale);
  const [words, setWords] = useState<{ of: Locale; words: Words } | null>(locale === "en" ? { of: "en", words: en } : null);

  useEffect(() => {
    let current = true;
    document.documentElement.lang = locale;
    LOCALES[locale]
      .load()
      .then((words) => current && setWords({ of: locale, words }))
      // Without its words the page is better in English than not at all.
      .catch(() => current && setWords((before) => before ?? { of: "en", words: en }));
    return () => {
      current = false;
    };
  }, [locale]);

  const value = useMemo<I18n | null>(
    () =>
      words && {
        t: (key, values) => fill(words.words[key], values),
        locale: words.of,
        tag: LOCALES[words.of].tag,
        setLocale: (next) => {
          remember("locale", next);
          setLocale(next);
        },
      },
    [words],
  );
  if (!value) return null;
  return (
    <Context value={value}>
      <I18nProvider locale={value.tag}>{children}</I18nProvider>
    </Context>
  );
}

export function useI18n(): I18n {
  const value = useContext(Context);
  if (!value) throw new Error("useI18n needs <Language>");
  return value;
}

/** Only the words. */
export const useT = (): Translate => useI18n().t;

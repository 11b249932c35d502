// The words of the pages in the language of whoever reads them.

import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { I18nProvider } from "react-aria-components/I18nProvider";
import { remember, remembered } from "../lib/store";
import { tellRefusalsBy, type Refusals } from "../lib/refusals";
import { en } from "./en";

export type Key = keyof typeof en;
export type Words = Record<Key, string>;
export type Locale = "en" | "ko";

/** All that a language needs. */
interface Catalogue {
  /** How it calls itself. */
  name: string;
  tag: string;
  /** Of the pages. */
  words: () => Promise<Words>;
  /** Of the API when it refuses: none where they are shown as it has them. */
  refusals?: () => Promise<Refusals>;
}

export const LOCALES: Record<Locale, Catalogue> = {
  en: { name: "English", tag: "en-US", words: async () => en },
  ko: {
    name: "한국어",
    tag: "ko-KR",
    words: async () => (await import("./ko")).ko,
    refusals: async () => (await import("./refusals.ko")).refusals,
  },
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
    const { words, refusals } = LOCALES[locale];
    Promise.all([words(), tellRefusalsBy(refusals)])
      .then(([words]) => current && setWords({ of: locale, words }))
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

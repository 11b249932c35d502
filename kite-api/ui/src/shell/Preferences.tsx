import { Select } from "../components/Select";
import { LOCALES, useI18n, type Locale } from "../i18n";
import { THEMES, useTheme, type Theme } from "../lib/theme";

/** Language and look, remembered by the browser. */
export function Preferences() {
  const { t, locale, setLocale } = useI18n();
  const [theme, setTheme] = useTheme();
  return (
    <div className="preferences">
      <Select
        ariaLabel={t("language")}
        value={locale}
        onChange={(value) => setLocale(value as Locale)}
        options={Object.entries(LOCALES).map(([value, { name }]) => ({ value, text: name }))}
      />
      <Select
        ariaLabel={t("theme")}
        value={theme}
        onChange={(value) => setTheme(value as Theme)}
        options={THEMES.map((value) => ({ value, text: t(`theme.${value}`) }))}
      />
    </div>
  );
}

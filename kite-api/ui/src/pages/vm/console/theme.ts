// How terminals look, the same in both themes of the page.

export const THEME = {
  background: "#0d1220",
  foreground: "#dfe6f5",
  cursor: "#8fa6ff",
  selectionBackground: "#35406a",
};

export const FONT = 'ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono", monospace';

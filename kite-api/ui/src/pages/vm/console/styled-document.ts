// xterm.js writes its rules into style elements, and colours of 24 bits into style
// attributes, which the page's content security policy forbids. Scripts of the page may
// have constructed style sheets, and declare the style of an element: so both are made
// of that here, and what comes as markup still has no style.

import type { Terminal } from "@xterm/xterm";

function styleElement(): HTMLElement {
  const element = document.createElement("template");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", {
    get: () => "",
    set: (css: string) => sheet.replaceSync(css),
  });
  const remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  Object.defineProperty(element, "remove", { value: remove });
  return element;
}

/** The document, but for its style elements: for `documentOverride`. Those that are made
 * with it in their place show nothing, and their text goes into a style sheet. */
export function styledDocument(): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement") {
        return (tag: string, options?: ElementCreationOptions) =>
          tag.toLowerCase() === "style" ? styleElement() : target.createElement(tag, options);
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value as () => unknown).bind(target) : value;
    },
  });
}

/** What of xterm.js's own gives letters the colours that are in no table. It makes them
 * with the page's document whatever other one it was given. */
interface Insides {
  _core?: { _renderService?: { _renderer?: { value?: { _rowFactory?: object } } } };
}

/** One declaration, such as `color:#ff6400`. */
function addStyle(element: HTMLElement, declaration: string): void {
  const colon = declaration.indexOf(":");
  element.style.setProperty(declaration.slice(0, colon), declaration.slice(colon + 1));
}

/** Opens a terminal in `host`, with all colours. */
export function openStyled(terminal: Terminal, host: HTMLElement): void {
  terminal.open(host);
  const rows = (terminal as unknown as Insides)._core?._renderService?._renderer?.value?._rowFactory;
  if (rows !== undefined) Object.assign(rows, { _addStyle: addStyle });
}

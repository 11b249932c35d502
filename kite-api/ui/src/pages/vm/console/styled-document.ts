// xterm.js writes its rules into style elements, which the page's content
// security policy forbids. It takes another document to make elements with:
// this one makes, in their place, elements that show nothing, whose text goes into
// a constructed style sheet, which scripts of the page may have.

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

/** The document, but for its style elements. */
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

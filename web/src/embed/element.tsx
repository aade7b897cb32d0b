// <epsilog-federated population="50000" ...>, <epsilog-queries ...> and <epsilog-verdict epsilon="4" ...>: they run in
// the reader's browser with the browser accountant. Values come from attributes; nothing is fetched or stored.

import { render } from "preact";
import css from "../app.css?inline";
import cardCss from "../components/verdict-card.css?inline";
import type { Raw, Store } from "../lib/form";
import { browserEngine } from "../lib/browser-accountant/engine";
import { applyTheme } from "../lib/theme";
import { FederatedCalculator } from "../pages/Federated";
import { QueriesCalculator } from "../pages/Queries";
import { VerdictOfPair } from "./VerdictOfPair";

function attributeStore(element: HTMLElement): Store {
  const read = (): Raw =>
    Object.fromEntries([...element.attributes].map(({ name, value }) => [name.replaceAll("-", "_"), value]));
  return {
    read,
    write: () => {},
    watch(changed) {
      const observer = new MutationObserver(changed);
      observer.observe(element, { attributes: true });
      return () => observer.disconnect();
    },
  };
}

function define(name: string, Page: typeof FederatedCalculator): void {
  if (customElements.get(name)) return;
  customElements.define(
    name,
    class extends HTMLElement {
      static observedAttributes = ["theme", "accent"];
      attributeChangedCallback(): void {
        applyTheme(this, this.getAttribute("theme"), this.getAttribute("accent"));
      }
      connectedCallback(): void {
        const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(css + cardCss);
        root.adoptedStyleSheets = [sheet];
        render(
          <div class="framed">
            <Page engine={browserEngine} store={attributeStore(this)} compact />
          </div>,
          root,
        );
      }
      disconnectedCallback(): void {
        if (this.shadowRoot) render(null, this.shadowRoot);
      }
    },
  );
}

define("epsilog-federated", FederatedCalculator);
define("epsilog-queries", QueriesCalculator);
define("epsilog-verdict", VerdictOfPair);

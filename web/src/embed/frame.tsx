// The page that other sites may frame: one calculator, computed by this server.

import { render } from "preact";
import "../app.css";
import { urlStore } from "../lib/url-state";
import { server } from "../lib/api";
import type { HeightMessage } from "../lib/snippets";
import { FederatedCalculator } from "../pages/Federated";
import { QueriesCalculator } from "../pages/Queries";

const store = urlStore();
const [Page, title] = location.pathname.endsWith("/queries") ? [QueriesCalculator, "Query budget calculator"] : [FederatedCalculator, "Federated privacy calculator"];
document.title = `${title} · epsilog`;
render(
  <main class="framed">
    <h1 class="hidden">{title}</h1>
    <Page engine={server} store={store} compact />
    <p class="credit">
      <a href={location.pathname.replace("/embed", "") + location.search} target="_blank" rel="noopener">
        Open in epsilog
      </a>
    </p>
  </main>,
  document.getElementById("app")!,
);

// Send the height to the embedding page. Any page may frame this one, so the message holds nothing else.
if (parent !== window) {
  const place = document.querySelector(".framed")!;
  const sendHeight = (): void => {
    const message: HeightMessage = { epsilog: "height", v: 1, height: Math.ceil(place.getBoundingClientRect().height) };
    parent.postMessage(message, "*");
  };
  new ResizeObserver(sendHeight).observe(place);
}

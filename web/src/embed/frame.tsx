// The page that other sites may frame: one calculator or verdict card, computed by this server.

import type { ComponentType } from "preact";
import { render } from "preact";
import "../app.css";
import { server } from "../lib/api";
import type { HeightMessage } from "../lib/snippets";
import { applyTheme } from "../lib/theme";
import { urlStore } from "../lib/url-state";
import { useMessages } from "../lib/use-messages";

const store = urlStore();
const calculator = (Page: typeof import("../pages/Federated").FederatedCalculator) => () => <Page engine={server} store={store} compact />;
const [load, title]: [() => Promise<ComponentType>, string] = location.pathname.endsWith("/queries")
  ? [async () => calculator((await import("../pages/Queries")).QueriesCalculator), "Query budget calculator"]
  : location.pathname.endsWith("/verdict")
    ? [async () => (await import("./VerdictFrame")).VerdictFrame, "Verdict card"]
    : [async () => calculator((await import("../pages/Federated")).FederatedCalculator), "Federated privacy calculator"];
const { theme, accent } = store.read();
applyTheme(document.documentElement, theme ?? null, accent ?? null);
document.title = `${title} · epsilog`;
const Content = await load();

function Frame() {
  useMessages();
  return (
    <main class="framed">
      <h1 class="hidden">{title}</h1>
      <Content />
      <p class="credit">
        <a href={location.pathname.replace("/embed", "") + location.search} target="_blank" rel="noopener">
          Open in epsilog
        </a>
      </p>
    </main>
  );
}

render(<Frame />, document.getElementById("app")!);

// Send the height to the embedding page. Any page may frame this one, so the message holds nothing else.
if (parent !== window) {
  const place = document.querySelector(".framed")!;
  const sendHeight = (): void => {
    const message: HeightMessage = { epsilog: "height", v: 1, height: Math.ceil(place.getBoundingClientRect().height) };
    parent.postMessage(message, "*");
  };
  new ResizeObserver(sendHeight).observe(place);
}

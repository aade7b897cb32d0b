import type { ComponentType } from "preact";
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import "./app.css";
import { Notice } from "./components/Notice";
import { WorkflowNav } from "./components/WorkflowNav";
import { ErrorNotice } from "./components/ErrorNotice";
import { urlStore, fromQuery } from "./lib/url-state";
import { server } from "./lib/api";
import { useMessages } from "./lib/use-messages";
import { Problem } from "./lib/types";
import { Home } from "./pages/Home";

/** Return a calculator page that uses the server and keeps its inputs in the URL. */
const calculator = (Page: typeof import("./pages/Federated").FederatedCalculator): ComponentType => () => <Page engine={server} store={useMemo(urlStore, [])} />;

interface PageEntry {
  path: string;
  name: string;
  lead: string; // the page's own heading
  says?: string; // what it is for, on the home page; other pages stand under "More"
  load: () => Promise<ComponentType>;
}

/** The pages, in the order of the menu. */
const PAGES: readonly PageEntry[] = [
  { path: "/dp-sgd", name: "DP-SGD", lead: "DP-SGD: what does this training run cost?", says: "What does DP-SGD cost each example?", load: async () => (await import("./pages/DPSGD")).DPSGD },
  { path: "/queries", name: "Queries", lead: "How much noise do these queries need?", says: "How much noise do my statistics need?", load: async () => calculator((await import("./pages/Queries")).QueriesCalculator) },
  { path: "/federated", name: "Federated", lead: "What does a federated run cost each client?", says: "What does training cost each client?", load: async () => calculator((await import("./pages/Federated")).FederatedCalculator) },
  { path: "/verdict", name: "Verdict", lead: "What does this epsilon mean?", says: "What does it mean out of 1,000 people?", load: async () => (await import("./pages/Verdict")).Verdict },
  { path: "/verify", name: "Verify", lead: "Verify a report", says: "Does this report hold?", load: async () => (await import("./pages/Verify")).Verify },
  { path: "/ledger", name: "Ledger", lead: "Caps, reservations and spending", says: "What is left, and who spent it?", load: async () => (await import("./pages/Ledger")).Ledger },
  { path: "/playground", name: "Playground", lead: "What does a composition of releases cost?", load: async () => (await import("./pages/Playground")).Playground },
  { path: "/compare", name: "Compare", lead: "Does the smaller epsilon protect better?", load: async () => (await import("./pages/Compare")).Compare },
  { path: "/montecarlo", name: "Monte Carlo", lead: "How small is δ where no formula exists?", load: async () => (await import("./pages/MonteCarlo")).MonteCarlo },
  { path: "/runs", name: "Runs", lead: "Compare the plan with the records", load: async () => (await import("./pages/Runs")).Runs },
  { path: "/certificate", name: "Certificate", lead: "What does this certificate prove?", load: async () => (await import("./pages/Certificate")).Certificate },
  { path: "/game", name: "Game", lead: "Release control", load: async () => (await import("./pages/Game")).Game },
];

const isPlace = (page: PageEntry): page is PageEntry & { says: string } => page.says !== undefined;
const PLACES = [...PAGES.filter(isPlace), { path: "/docs/", name: "Docs", says: "Questions, answers, proofs, commands" }];
const MORE = PAGES.filter((page) => !isPlace(page));

/** The menu: the main pages, and the others in a list that opens. */
function Menu({ at }: { at: string | undefined }) {
  const link = ({ path, name }: { path: string; name: string }) => (
    <a key={path} href={path} aria-current={path === at ? "page" : undefined}>
      {name}
    </a>
  );
  const close = (event: FocusEvent): void => {
    const list = event.currentTarget as HTMLDetailsElement;
    setTimeout(() => !list.contains(document.activeElement) && (list.open = false));
  };
  return (
    <nav aria-label="Pages">
      {PLACES.map(link)}
      <details key={at} class="more" onFocusOut={close}>
        <summary class={MORE.some(({ path }) => path === at) ? "here" : undefined}>More</summary>
        <div>{MORE.map(link)}</div>
      </details>
    </nav>
  );
}

function usePath(): string {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const moved = (): void => setPath(location.pathname);
    const click = (event: MouseEvent): void => {
      const link = (event.target as Element).closest("a");
      if (!link || link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0 || /^\/(api|docs|checker)(\/|$)/.test(link.pathname)) return;
      if (link.pathname === location.pathname && link.hash) return;
      event.preventDefault();
      history.pushState(null, "", link.href);
      moved();
      scrollTo(0, 0);
      document.querySelector<HTMLElement>("main")?.focus();
    };
    addEventListener("popstate", moved);
    document.addEventListener("click", click);
    return () => {
      removeEventListener("popstate", moved);
      document.removeEventListener("click", click);
    };
  }, []);
  return path;
}

/** Browsers cache a failed import until the page is reloaded, so a retry reloads the page. */
function Unreachable() {
  const again = async (): Promise<void> => {
    const found = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    if (found?.ok) location.reload();
  };
  return <ErrorNotice problem={new Problem("The server does not answer", "This page could not be loaded. Check that `epsilog serve` is running.")} retry={again} />;
}

function App() {
  const path = usePath();
  useMessages();
  const entry = PAGES.find((each) => path === each.path || path.startsWith(`${each.path}/`));
  const [loaded, setLoaded] = useState<{ path: string; Page: ComponentType } | null>(null);
  const [failed, setFailed] = useState<PageEntry | null>(null);
  useEffect(() => {
    document.title = entry ? `${entry.name} · epsilog` : "epsilog";
    setFailed(null);
    entry?.load().then(
      (Page) => setLoaded({ path: entry.path, Page }),
      () => setFailed(entry),
    );
  }, [entry]);
  const foreign = fromQuery(location.search).foreign;
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="/">
          epsi<b>log</b>
        </a>
        <Menu at={entry?.path} />
      </header>
      <main id="main" tabIndex={-1}>
        {foreign !== null && <Notice grade="weak">This link is from version {foreign.slice(0, 10)} of these pages; its values are ignored.</Notice>}
        {entry ? (
          <>
            <h1>{entry.lead}</h1>
            {loaded?.path === entry.path ? <loaded.Page key={path} /> : failed === entry ? <Unreachable /> : <p class="empty">Loading…</p>}
            {loaded?.path === entry.path && <WorkflowNav at={entry.path} />}
          </>
        ) : path === "/" ? (
          <Home places={PLACES} />
        ) : (
          <>
            <h1>Page not found</h1>
            <p>
              Go to the <a href="/">home page</a> or select a page above.
            </p>
          </>
        )}
      </main>
      <footer class="foot">
        Only upper bounds may be claimed. Everything is computed on this machine. <a href="/docs/">Docs</a> · <a href="/api/openapi.json">API</a>
      </footer>
    </>
  );
}

render(<App />, document.getElementById("app")!);

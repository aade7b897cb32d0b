// Inputs are stored in the URL with a version, so that reload, back and shared links give the same results.

import type { Raw, Store } from "./form";

export const VERSION = "1";
const SETTLE = 250; // ms without typing until the URL is updated

export function toQuery(raw: Raw): string {
  const query = new URLSearchParams({ v: VERSION });
  for (const [name, text] of Object.entries(raw)) query.set(name, text);
  return query.toString();
}

/** Read a query string; one of another version is ignored and reported. */
export function fromQuery(search: string): { raw: Raw; foreign: string | null } {
  const query = new URLSearchParams(search);
  const version = query.get("v");
  if (version !== null && version !== VERSION) return { raw: {}, foreign: version };
  query.delete("v");
  return { raw: Object.fromEntries(query), foreign: null };
}

export function urlStore(): Store {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let committed = location.search;
  const here = location.pathname;
  return {
    read: () => fromQuery(location.search).raw,
    write(raw, commit) {
      clearTimeout(timer);
      const search = `?${toQuery({ ...fromQuery(location.search).raw, ...raw })}`; // a page can have several forms
      const put = (): void => {
        if (location.pathname !== here) return;
        if (commit && search !== committed) {
          // the previous history entry keeps its committed values, so that "back" undoes one change
          history.replaceState(null, "", here + committed);
          history.pushState(null, "", here + search);
          committed = search;
        } else if (!commit) history.replaceState(null, "", here + search);
      };
      if (commit) put();
      else timer = setTimeout(put, SETTLE);
    },
    watch(changed) {
      const listen = (): void => {
        clearTimeout(timer);
        if (location.pathname !== here) return;
        committed = location.search;
        changed();
      };
      addEventListener("popstate", listen);
      return () => {
        clearTimeout(timer);
        removeEventListener("popstate", listen);
      };
    },
  };
}

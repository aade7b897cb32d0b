// Work that goes on in the server, watched through server-sent events.

import { useEffect, useState } from "preact/hooks";
import { Problem } from "./types";

export const OVER = ["done", "failed", "cancelled"];

/** The latest snapshot of the job at `path`; null while there is none. */
export function useJob<S extends { state: string }>(path: string | null): { seen: S | null; lost: Problem | null } {
  const [found, setFound] = useState<{ path: string | null; seen: S | null; lost: Problem | null }>({ path, seen: null, lost: null });
  useEffect(() => {
    if (path === null) return;
    const source = new EventSource(`/api/v1/${path}/events`);
    source.onmessage = (event: MessageEvent<string>) => {
      const seen = JSON.parse(event.data) as S;
      setFound({ path, seen, lost: null });
      if (OVER.includes(seen.state)) source.close();
    };
    source.onerror = () => {
      // while the browser tries again by itself, nothing is lost yet
      if (source.readyState !== EventSource.CLOSED) return;
      const lost = new Problem("The server does not answer", "Is it still running?");
      setFound((old) => ({ path, seen: old.path === path ? old.seen : null, lost }));
    };
    return () => source.close();
  }, [path]);
  return found.path === path ? found : { seen: null, lost: null };
}

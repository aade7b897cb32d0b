// Follow a background job of the server through server-sent events. These carry no token, so with a token the page polls
// every second instead.

import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { hasToken } from "./token";
import { Problem } from "./types";

const POLL_INTERVAL = 1000; // ms

export const OVER = ["done", "failed", "cancelled"];

/** Return the latest snapshot of the job at `path`; null before the first one. */
export function useJob<S extends { state: string }>(path: string | null): { seen: S | null; lost: Problem | null } {
  const [found, setFound] = useState<{ path: string | null; seen: S | null; lost: Problem | null }>({ path, seen: null, lost: null });
  useEffect(() => {
    if (path === null) return;
    if (hasToken())
      return poll<S>(
        path,
        (seen) => setFound({ path, seen, lost: null }),
        (lost) => setFound((old) => ({ path, seen: old.path === path ? old.seen : null, lost })),
      );
    const source = new EventSource(`/api/v1/${path}/events`);
    source.onmessage = (event: MessageEvent<string>) => {
      const seen = JSON.parse(event.data) as S;
      setFound({ path, seen, lost: null });
      if (OVER.includes(seen.state)) source.close();
    };
    source.onerror = () => {
      // the browser retries by itself; only a closed stream is lost
      if (source.readyState !== EventSource.CLOSED) return;
      const lost = new Problem("The server does not answer", "Check that it is running.");
      setFound((old) => ({ path, seen: old.path === path ? old.seen : null, lost }));
    };
    return () => source.close();
  }, [path]);
  return found.path === path ? found : { seen: null, lost: null };
}

/** Poll a job until it ends; return a function that stops polling. */
function poll<S extends { state: string }>(path: string, tell: (seen: S) => void, lose: (lost: Problem) => void): () => void {
  const ended = new AbortController();
  const look = async (): Promise<void> => {
    try {
      const seen = await get<S>(path, ended.signal);
      tell(seen);
      if (!OVER.includes(seen.state)) setTimeout(() => void (ended.signal.aborted || look()), POLL_INTERVAL);
    } catch (error) {
      if (!ended.signal.aborted) lose(error instanceof Problem ? error : new Problem("Unexpected error", String(error)));
    }
  };
  void look();
  return () => ended.abort();
}

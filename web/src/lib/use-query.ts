// Query the engine while the user types: debounced, stale answers dropped, failures separate from results.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./types";

export interface QueryState<Q, A> {
  answer: A | null;
  of: Q | null; // the request of this answer, which may be older than the last one sent
  busy: boolean;
  problem: Problem | null;
  retry(): void;
}

const IDLE = { answer: null, of: null, busy: false, problem: null };

/**
 * Send `ask` whenever it changes: at once after a pause, and while changes follow each other within `delay` (ms) only the
 * last. Null (a form without values) clears the answer, so no result outlives its inputs.
 */
export function useQuery<Q, A>(
  ask: Q | null,
  run: (ask: Q, signal: AbortSignal) => Promise<A>,
  options: { delay?: number; onProblem?: (problem: Problem) => void } = {},
): QueryState<Q, A> {
  const [state, setState] = useState<Omit<QueryState<Q, A>, "retry">>({
    answer: null,
    of: null,
    busy: ask !== null,
    problem: null,
  });
  const [attempt, setAttempt] = useState(0);
  const current = useRef({ run, options });
  current.current = { run, options };
  const changed = useRef(-Infinity);
  const key = ask === null ? null : JSON.stringify(ask);
  useEffect(() => {
    if (ask === null) {
      setState({ answer: null, of: null, busy: false, problem: null });
      return;
    }
    const stop = new AbortController();
    const [delay, now] = [options.delay ?? 60, performance.now()];
    const wait = now - changed.current < delay ? delay : 0;
    changed.current = now;
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      current.current.run(ask, stop.signal).then(
        (answer) => {
          if (!stop.signal.aborted) setState({ answer, of: ask, busy: false, problem: null });
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          const problem = error instanceof Problem ? error : new Problem("Unexpected error", String(error));
          setState({ answer: null, of: null, busy: false, problem });
          current.current.options.onProblem?.(problem);
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // `key` identifies `ask`
  }, [key, attempt]);
  const same = key !== null && state.of !== null && key === JSON.stringify(state.of); // another spelling of the same values
  const visible = key === null ? IDLE : state; // the result disappears with the keystroke that makes the form invalid
  return { ...visible, of: same ? ask : visible.of, retry: () => setAttempt((n) => n + 1) };
}

/** Called when a part of a page has its first answer. */
export type Ready = (part: string) => void;

/** Report that a part has its first answer or failure; a page of several parts appears once all have. */
export function useReady(part: string, found: { answer: unknown; problem: Problem | null }, ready: Ready): void {
  const met = found.answer !== null || found.problem !== null;
  useEffect(() => {
    if (met) ready(part);
  }, [met, part, ready]);
}

/**
 * Query two engines: the quick one's looser bound is shown until the precise one's arrives. `settled` means that the
 * precise bound is shown, `refining` the quick one. If the precise query fails, only the failure is shown.
 */
export function useRefinedQuery<Q, A>(
  ask: Q | null,
  precise: (ask: Q, signal: AbortSignal) => Promise<A>,
  quick: (ask: Q, signal: AbortSignal) => Promise<A>,
  options: { delay?: number; onProblem?: (problem: Problem) => void },
): QueryState<Q, A> & { settled: boolean; refining: boolean } {
  const main = useQuery(ask, precise, options);
  const first = useQuery(ask, quick, { delay: 0 });
  const settled = main.answer !== null && !main.busy;
  const best = main.busy && !first.busy && first.answer !== null ? first : main;
  return { ...main, answer: best.answer, of: best.of, settled, refining: best === first };
}

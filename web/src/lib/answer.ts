// Asking while typing: debounced, stale answers dropped, failures kept apart from numbers.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./types";

export interface Answer<A> {
  answer: A | null;
  busy: boolean;
  problem: Problem | null;
  retry(): void;
}

/** Asks whenever `ask` changes. A null ask (a form that is wrong) clears the answer: no number outlives its inputs. */
export function useAnswer<Q, A>(
  ask: Q | null,
  run: (ask: Q, signal: AbortSignal) => Promise<A>,
  options: { delay?: number; onProblem?: (problem: Problem) => void } = {},
): Answer<A> {
  const [state, setState] = useState<{ answer: A | null; busy: boolean; problem: Problem | null }>({
    answer: null,
    busy: ask !== null,
    problem: null,
  });
  const [attempt, setAttempt] = useState(0);
  const current = useRef({ run, options });
  current.current = { run, options };
  const key = ask === null ? null : JSON.stringify(ask);
  useEffect(() => {
    if (ask === null) {
      setState({ answer: null, busy: false, problem: null });
      return;
    }
    const stop = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      current.current.run(ask, stop.signal).then(
        (answer) => {
          if (!stop.signal.aborted) setState({ answer, busy: false, problem: null });
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
          setState({ answer: null, busy: false, problem });
          current.current.options.onProblem?.(problem);
        },
      );
    }, options.delay ?? 60);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // the key stands for `ask`
  }, [key, attempt]);
  return { ...state, retry: () => setAttempt((n) => n + 1) };
}

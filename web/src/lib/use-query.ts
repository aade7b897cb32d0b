// Asking while typing: debounced, stale answers dropped, failures kept apart from numbers.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./types";

export interface Answer<Q, A> {
  answer: A | null;
  of: Q | null; // the question that it answers: until the next answer is there, not the one last asked
  busy: boolean;
  problem: Problem | null;
  retry(): void;
}

const IDLE = { answer: null, of: null, busy: false, problem: null };

/** Asks whenever `ask` changes. A null ask (a form that is wrong) clears the answer: no number outlives its inputs. */
export function useQuery<Q, A>(
  ask: Q | null,
  run: (ask: Q, signal: AbortSignal) => Promise<A>,
  options: { delay?: number; onProblem?: (problem: Problem) => void } = {},
): Answer<Q, A> {
  const [state, setState] = useState<Omit<Answer<Q, A>, "retry">>({
    answer: null,
    of: null,
    busy: ask !== null,
    problem: null,
  });
  const [attempt, setAttempt] = useState(0);
  const current = useRef({ run, options });
  current.current = { run, options };
  const key = ask === null ? null : JSON.stringify(ask);
  useEffect(() => {
    if (ask === null) {
      setState({ answer: null, of: null, busy: false, problem: null });
      return;
    }
    const stop = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      current.current.run(ask, stop.signal).then(
        (answer) => {
          if (!stop.signal.aborted) setState({ answer, of: ask, busy: false, problem: null });
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          const problem = error instanceof Problem ? error : new Problem("An error of ours", String(error));
          setState({ answer: null, of: null, busy: false, problem });
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
  const same = key !== null && state.of !== null && key === JSON.stringify(state.of); // typed otherwise, and meant the same
  const visible = key === null ? IDLE : state; // a number goes with the keystroke that makes the form wrong, not after it
  return { ...visible, of: same ? ask : visible.of, retry: () => setAttempt((n) => n + 1) };
}

/** Told which part of a page has its first answer. */
export type Ready = (part: string) => void;

/** Says that a part has its first answer, or why it has none: a page of several parts is shown once all have. */
export function useReady(part: string, found: { answer: unknown; problem: Problem | null }, ready: Ready): void {
  const met = found.answer !== null || found.problem !== null;
  useEffect(() => {
    if (met) ready(part);
  }, [met, part, ready]);
}

/**
 * Two answers to one question: the quick one is shown at once, with its looser bound, until the sharp one is there.
 * `settled` says that what is shown is sharp, `refining` that it is the quick one. When the sharp one fails, nothing is shown beside the failure.
 */
export function useRefinedQuery<Q, A>(
  ask: Q | null,
  sharp: (ask: Q, signal: AbortSignal) => Promise<A>,
  quick: (ask: Q, signal: AbortSignal) => Promise<A>,
  options: { delay?: number; onProblem?: (problem: Problem) => void },
): Answer<Q, A> & { settled: boolean; refining: boolean } {
  const main = useQuery(ask, sharp, options);
  const first = useQuery(ask, quick, { delay: 0 });
  const settled = main.answer !== null && !main.busy;
  const best = main.busy && !first.busy && first.answer !== null ? first : main;
  return { ...main, answer: best.answer, of: best.of, settled, refining: best === first };
}

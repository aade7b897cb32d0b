// How many of 1,000 people the best attack picks out at most: the browser's bound until the server's is there.

import { useMemo } from "preact/hooks";
import { post } from "./api";
import { releaseOf } from "./browser-accountant/releases";
import type { CompareRequest, VerdictResponse } from "./openapi";
import { boundAttack, countOf } from "./quantities";
import type { FederatedResponse, QueriesResponse } from "./types";
import { useQuery } from "./use-query";

type Answer = FederatedResponse | QueriesResponse;

/** Return the count for a release of the server's answer; null until it is known. It is settled once it is, or never will be. */
export function useFound(release: object | undefined, delta: number, relation = "add-or-remove-one"): { found: number | null; settled: boolean } {
  const key = JSON.stringify([release, delta, relation]);
  const ask = useMemo(() => (release ? { release, delta, relation } : null), [key]);
  const { answer, of, busy, problem } = useQuery(ask, (body, signal) => post<VerdictResponse>("verdict", body, signal), { delay: 400 });
  return { found: of === ask ? (answer?.found ?? null) : null, settled: ask !== null && !busy && (of === ask || problem !== null) };
}

/** Return the count for what is shown. */
export function useFoundCount({ answer, settled }: { answer: Answer | null; settled: boolean }): { count: number; settled: boolean } {
  const quick = useMemo(() => (answer ? countOf(boundHere(answer)) : 1000), [answer]);
  const known = useFound(settled ? answer?.release : undefined, answer?.delta?.value ?? 0, answer && "relation" in answer ? answer.relation : undefined);
  return { count: Math.min(quick, known.found ?? quick), settled: known.settled };
}

/** The browser's bound; of what it has no curve for, from epsilon and delta alone. */
function boundHere(answer: Answer): number {
  const claim = { epsilon: typeof answer.epsilon === "number" ? answer.epsilon : answer.epsilon.upper, delta: answer.delta?.value ?? 0 };
  return boundAttack(claim, "shares" in answer ? queriesRelease(answer) : scheduleRelease(answer));
}

function queriesRelease({ mechanism, shares, sensitivity }: QueriesResponse) {
  const precision = shares.reduce((sum, { count, optimal }) => sum + count * (sensitivity / optimal.scale) ** 2, 0);
  const part = { mechanism: "gdp", parameter: Math.sqrt(precision) * (1 + 1e-12), second: null, sampling_probability: 1, count: 1 } as const;
  return mechanism === "gaussian" && precision > 0 ? releaseOf(part, "add-or-remove-one") : null;
}

function scheduleRelease({ noise_multiplier, sampling_probability, rounds, relation, sampling }: FederatedResponse) {
  const part = { mechanism: "gaussian", parameter: noise_multiplier, second: null, sampling_probability, count: rounds } as const;
  return sampling === "poisson" && noise_multiplier > 0 ? releaseOf(part, relation as CompareRequest["relation"]) : null;
}

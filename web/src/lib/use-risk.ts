// How many people the best attack picks out: the browser's bound until the server's is there.

import { useMemo } from "preact/hooks";
import { post } from "./api";
import { releaseOf } from "./browser-accountant/releases";
import type { CompareRequest, RiskMetricsResponse } from "./openapi";
import { boundAttack, FPR } from "./quantities";
import type { FederatedResponse, QueriesResponse } from "./types";
import { type QueryState, useQuery } from "./use-query";

export type Risk = QueryState<object, RiskMetricsResponse>;

/** Ask for the bounds on attacks once the claim is certified; null until then. */
export const useRisk = (name: string, settled: object | null): Risk => useQuery(settled, (body, signal) => post<RiskMetricsResponse>(`${name}/risk`, body, signal), { delay: 400 });

type Answer = FederatedResponse | QueriesResponse;

/** Return the largest success of an attack on what is shown, at a false-positive rate of 1%. */
export function useSuccess(main: { answer: Answer | null; of: object | null }, risk: Risk): number {
  const quick = useMemo(() => (main.answer ? boundHere(main.answer) : 1), [main.answer]);
  const known = risk.of === main.of && risk.answer?.attack.find((rate) => rate.fpr === FPR);
  return known ? Math.min(quick, known.tpr) : quick;
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

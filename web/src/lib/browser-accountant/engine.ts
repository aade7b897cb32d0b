// The calculators without a server: upper bounds of sampled Gaussians, exact Gaussians, closed forms. It reports gaps.

import type { Engine } from "../engine";
import { sentence } from "../messages";
import { show } from "../numbers";
import { readFederatedSchedule } from "../openapi";
import type { FederatedResponse, FederatedRequest, Finding, Interval, Noise, QueriesResponse, QueriesRequest } from "../types";
import { Problem } from "../types";
import { classicGaussian, federatedClosedForm, LAPLACE_95, NORMAL_95 } from "./closed";
import { gaussianEpsilon, gaussianNoise } from "./gaussian";
import { epsilonOf } from "./sampled";

export const METHOD = "inversion of a discretized loss, with all errors added (in the browser)";
const MAX_ROUNDS = 2 ** 30;

function decideDelta(given: number | null, population: number, cap: number | null) {
  const share = 1 / population;
  const value = Math.min(given ?? share, cap ?? Infinity);
  if (!(value > 0 && value < 1)) throw new Problem("Out of bounds", "delta must be in (0, 1)", [{ field: "delta", message: "must be in (0, 1)" }]);
  const limit = value === share ? "1/N" : "the policy cap";
  const rationale =
    given === null
      ? `left blank: min(1/N = ${show(share)}, policy cap ${cap === null ? "none" : show(cap)}) is ${limit}`
      : value === given
        ? "as given"
        : `given as ${show(given)}, lowered to the policy cap ${show(value)}`;
  const grade = value >= share ? ("void" as const) : value > share / 10 ? ("weak" as const) : ("good" as const);
  const text = sentence([grade === "void" ? "delta/too-large" : "delta/passed", { delta: value, one_over_n: share }]);
  const findings = grade === "void" ? [finding("delta/too-large", "warned", text)] : [];
  return { value, rationale, grade, sentence: text, findings };
}

const bound = (upper: number, method: string, relation: string): Interval => ({
  lower: null,
  upper,
  method,
  relation,
  assumptions: [],
});

function checkSupport(ask: FederatedRequest): void {
  if (ask.sampling !== "poisson" || ask.relation === "replace-one")
    throw new Problem("Needs the server", "The browser supports only Poisson sampling, under add-or-remove or zero-out.");
}

function compareClosedForm(total: number, upper: number): FederatedResponse["closed_form_note"] {
  return Number.isFinite(upper) ? [total < upper ? "formula/below" : "formula/above", { total, upper }] : "formula/no-noise";
}

function planSchedule(ask: FederatedRequest): FederatedResponse {
  checkSupport(ask);
  const q = ask.cohort_size / ask.population;
  const delta = decideDelta(ask.delta, ask.population, ask.delta_cap);
  const formula = federatedClosedForm(q, ask.noise_multiplier, ask.rounds, delta.value);
  const compute = (rounds: number): Interval => bound(epsilonOf({ sigma: ask.noise_multiplier, q, rounds }, delta.value), METHOD, ask.relation);
  const epsilon = compute(ask.rounds);
  const mu = ask.noise_multiplier === 0 ? Infinity : (Math.sqrt(ask.rounds) / ask.noise_multiplier) * (1 + 1e-15);
  return {
    ...readFederatedSchedule(ask),
    sampling_probability: q,
    noise_stddev: ask.noise_multiplier * ask.clip_norm,
    delta: { value: delta.value, rationale: delta.rationale, findings: delta.findings },
    delta_grade: delta.grade,
    delta_sentence: delta.sentence,
    closed_form: formula,
    epsilon,
    unamplified: bound(gaussianEpsilon(mu, delta.value), "method/gaussian@1", ask.relation),
    releases_per_period: ask.releases_per_period,
    cumulative: ask.releases_per_period === 1 ? epsilon : compute(ask.rounds * ask.releases_per_period),
    closed_form_note: compareClosedForm(formula.total, epsilon.upper),
    limits: [finding("coverage/in-browser", "passed", "Computed in this browser. Lower bounds and other sampling schemes need the server."), ...listCoverageGaps(ask)],
  };
}

/** List stated parameters that the bound does not cover; an embedded calculator has no field for them. */
function listCoverageGaps(ask: FederatedRequest): Finding[] {
  const stated = [
    ...(ask.group_size > 1 ? [`${ask.group_size} records per person`] : []),
    ...(ask.trials === null ? [] : [`the best of several runs (${ask.trials})`]),
    ...(ask.without_replacement ? [] : ["several updates of one unit in a round"]),
    ...(ask.adaptive_clip ? ["a clip norm learned from the data"] : []),
    ...(ask.late_replies === "count-as-zero" ? [] : ["late replies that are not counted as zero"]),
  ];
  return stated.map((what) => finding("coverage/not-covered", "warned", `This number does NOT cover ${what}.`));
}

function roundsFor(ask: FederatedRequest, target: number): number {
  checkSupport(ask);
  const delta = decideDelta(ask.delta, ask.population, ask.delta_cap).value;
  const [sigma, q] = [ask.noise_multiplier, ask.cohort_size / ask.population];
  const fits = (rounds: number): boolean => epsilonOf({ sigma, q, rounds }, delta) <= target;
  if (!fits(1)) return 0;
  let most = 1;
  while (fits(2 * most)) {
    most *= 2;
    if (most > MAX_ROUNDS) throw new Problem("Calibration failed", "More than a billion rounds fit.");
  }
  for (let step = most; step > 1; ) {
    step = Math.ceil(step / 2);
    if (fits(most + step)) most += step;
  }
  return most;
}

function noiseFor(ask: FederatedRequest, target: number): number {
  const epsilonAt = (sigma: number): number => planSchedule({ ...ask, noise_multiplier: sigma }).epsilon.upper;
  let [low, high] = [0.05, 1];
  while (epsilonAt(high) > target) {
    high *= 2;
    if (high > 1e9) throw new Problem("Calibration failed", "No amount of noise reaches this target.");
  }
  while (high / low > 1 + 5e-4) {
    const middle = Math.sqrt(low * high);
    if (epsilonAt(middle) <= target) high = middle;
    else low = middle;
  }
  return high;
}

function noise(mechanism: string, scale: number): Noise {
  return mechanism === "laplace"
    ? { scale, expected_error: scale, error_95: scale * LAPLACE_95 }
    : { scale, expected_error: scale * Math.sqrt(2 / Math.PI), error_95: scale * NORMAL_95 };
}

export function queries(ask: QueriesRequest): QueriesResponse {
  const gaussian = ask.mechanism === "gaussian";
  const groups = ask.weights ? ask.weights.map((weight) => ({ count: 1, weight })) : [{ count: ask.queries, weight: 1 }];
  if (ask.weights && ask.weights.length !== ask.queries)
    throw new Problem("Out of bounds", "one weight for each query", [{ field: "weights", message: `must be one for each of ${ask.queries} queries` }]);
  if (gaussian && ask.delta === null && ask.population === null)
    throw new Problem("Out of bounds", "delta is needed", [{ field: "delta", message: "is needed for the Gaussian mechanism, or a population" }]);
  const used = ask.population !== null && (ask.delta !== null || gaussian);
  const decided = used ? decideDelta(ask.delta, ask.population!, ask.delta_cap) : null;
  const delta = decided?.value ?? ask.delta ?? 0;
  const total = groups.reduce((sum, { count, weight }) => sum + count * weight, 0);
  const norm = Math.sqrt(groups.reduce((sum, { count, weight }) => sum + count * (weight / total) ** 2, 0));
  const optimalGaussian = gaussian ? gaussianNoise(ask.epsilon, delta) : 0;
  const shares = groups.map(({ count, weight }) => {
    const share = weight / total;
    const each = ask.epsilon * share;
    const of = (scale: number): Noise => noise(ask.mechanism, scale * ask.sensitivity);
    return {
      count,
      weight,
      epsilon: each,
      classic: of(gaussian ? classicGaussian(each, delta) : 1 / each),
      exact: of(gaussian ? gaussianNoise(each, delta) : 1 / each),
      optimal: of(gaussian ? (optimalGaussian * norm) / share : 1 / each),
    };
  });
  let left = ask.queries_used;
  const taken = shares.map((share, i) => {
    const here = i === shares.length - 1 ? left : Math.min(left, share.count); // queries beyond the plan count as its last one
    left -= here;
    return here;
  });
  const cost = (way: "classic" | "exact" | "optimal"): Interval => {
    const sum = (power: number): number => shares.reduce((s, share, i) => s + taken[i]! * (ask.sensitivity / share[way].scale) ** power, 0);
    return gaussian
      ? bound(gaussianEpsilon(Math.sqrt(sum(2)) * (1 + 1e-13), delta), "method/gaussian@1", "add-or-remove-one")
      : bound(sum(1), "basic composition", "add-or-remove-one");
  };
  const consumed = {
    split: shares.reduce((sum, share, i) => sum + taken[i]! * share.epsilon, 0),
    classic: cost("classic"),
    exact: cost("exact"),
    optimal: cost("optimal"),
  };
  const compatible = ask.queries_used <= ask.queries;
  const remaining = ask.epsilon - consumed.optimal.upper;
  const findings: Finding[] = [...(decided?.findings ?? [])];
  if (ask.queries_used > ask.queries)
    findings.push(finding("queries/too-many", "failed", sentence(["queries/too-many", { planned: ask.queries, used: ask.queries_used }])));
  if (gaussian && ask.queries > 1)
    findings.push(finding("classic-formula/delta-for-each", "warned", sentence(["classic-formula/delta-for-each", { total_delta: Math.min(1, ask.queries * delta) }])));
  if (!gaussian && delta > 0) 
    findings.push(finding("laplace/pure-split", "warned", "tight composition of Laplace noise with a δ needs the server; basic composition is shown"));
  return {
    epsilon: ask.epsilon,
    delta: delta > 0 ? { value: delta, rationale: decided?.rationale ?? "as given", findings: decided?.findings ?? [] } : null,
    delta_grade: decided?.grade ?? null,
    delta_sentence: decided?.sentence ?? null,
    mechanism: ask.mechanism,
    sensitivity: ask.sensitivity,
    queries: ask.queries,
    queries_used: ask.queries_used,
    queries_left: Math.max(0, ask.queries - ask.queries_used),
    consumed,
    remaining: compatible ? Math.max(0, remaining) : remaining,
    compatible,
    classic_total_delta: gaussian ? Math.min(1, ask.queries * delta) : 0,
    saving: shares[0]!.classic.scale / shares[0]!.optimal.scale,
    magnitude: ask.magnitude,
    relative_error_95: ask.magnitude === null ? null : shares[0]!.optimal.error_95 / Math.abs(ask.magnitude),
    shares,
    findings,
  };
}

const finding = (code: string, status: Finding["status"], message: string): Finding => ({ code, check: code.split("/")[0]!, status, message, values: {} });

export const browserEngine: Engine = {
  name: "browser",
  federated: async (ask) => planSchedule(ask),
  curve: async (ask) => {
    checkSupport(ask);
    const q = ask.cohort_size / ask.population;
    const delta = decideDelta(ask.delta, ask.population, ask.delta_cap).value;
    const counts = new Set([1, ...Array.from({ length: 24 }, (_, i) => Math.ceil((ask.rounds * (i + 1)) / 24))]);
    return [...counts].map((rounds) => ({
      rounds,
      lower: null,
      upper: epsilonOf({ sigma: ask.noise_multiplier, q, rounds }, delta),
      closed_form: federatedClosedForm(q, ask.noise_multiplier, rounds, delta).total,
    }));
  },
  noiseFor: async (ask, target) => noiseFor(ask, target),
  roundsFor: async (ask, target) => roundsFor(ask, target),
  queries: async (ask) => queries(ask),
};

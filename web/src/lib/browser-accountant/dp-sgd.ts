// A DP-SGD run without a server: upper bounds for Poisson and shuffled batches; other loaders need the server.

import type { DPSGDRequest, DPSGDResponse, IntervalModel } from "../openapi";
import { maxTpr, type Point } from "../tradeoff";
import { Problem } from "../types";
import { METHOD } from "./engine";
import { gaussianDelta, gaussianEpsilon } from "./gaussian";
import { deltasOf, epsilonOf } from "./sampled";

const FPR = 0.01; // of those outside the data, whom the attack wrongly accuses
const POINTS = 24; // of the privacy profile
const NOISE_DIGITS = 4; // of a noise multiplier that is sought

/** Return the noisy steps: epochs times size over batch size, rounded up, without a rounding in between. */
export function countSteps(ask: Pick<DPSGDRequest, "examples" | "batch_size" | "epochs" | "steps">): number {
  if (ask.steps !== null) return ask.steps;
  const [mantissa, exponent] = (ask.epochs ?? 0).toExponential().split("e") as [string, string];
  const [whole, decimals = ""] = mantissa.split(".") as [string, string | undefined];
  const power = Number(exponent) - decimals.length;
  const [above, below] = [10n ** BigInt(Math.max(0, power)), 10n ** BigInt(Math.max(0, -power))];
  const [passed, size] = [BigInt(whole + decimals) * above * BigInt(ask.examples), below * BigInt(ask.batch_size)];
  return Number((passed + size - 1n) / size);
}

/** Return how often shuffled batches use an example at most. */
const countPasses = (ask: DPSGDRequest): number => (ask.steps === null ? Math.ceil(ask.epochs ?? 0) : Math.ceil(ask.steps / Math.floor(ask.examples / ask.batch_size)));

type Loader = "poisson" | "shuffled";

const schedule = (ask: DPSGDRequest, sigma: number) => ({ sigma, q: ask.batch_size / ask.examples, rounds: countSteps(ask) });

/** Return mu of the composed Gaussian if an example is used once an epoch. */
const shuffledMu = (ask: DPSGDRequest, sigma: number): number => (sigma === 0 ? Infinity : ((ask.relation === "replace-one" ? 2 : 1) * Math.sqrt(countPasses(ask)) * (1 + 1e-14)) / sigma);

const boundEpsilon = (ask: DPSGDRequest, sampler: Loader, sigma: number): number =>
  sampler === "shuffled" ? gaussianEpsilon(shuffledMu(ask, sigma), ask.delta) : epsilonOf(schedule(ask, sigma), ask.delta);

/** Return the least noise that meets the target, rounded up. */
function findNoise(ask: DPSGDRequest, sampler: Loader, target: number): number {
  const fits = (sigma: number): boolean => boundEpsilon(ask, sampler, sigma) <= target;
  let [low, high] = [0.05, 1];
  while (!fits(high)) {
    [low, high] = [high, 2 * high];
    if (high > 1e9) throw new Problem("Calibration failed", "No amount of noise reaches this target.");
  }
  while (high / low > 1 + 2e-4) {
    const middle = Math.sqrt(low * high);
    if (fits(middle)) high = middle;
    else low = middle;
  }
  const unit = 10 ** (Math.floor(Math.log10(high)) - NOISE_DIGITS + 1);
  return Number((Math.ceil(high / unit - 1e-9) * unit).toPrecision(NOISE_DIGITS));
}

/** Bound the true-positive rate of the best attack, from the profile. */
function boundTpr(ask: DPSGDRequest, sampler: Loader, sigma: number, epsilon: number): number {
  if (!Number.isFinite(epsilon)) return 1;
  const mu = shuffledMu(ask, sigma);
  const at = Array.from({ length: POINTS }, (_, i) => (1.1 * epsilon * i) / POINTS);
  const deltas = sampler === "shuffled" ? at.map((each) => gaussianDelta(mu, each)) : deltasOf(schedule(ask, sigma), at, ask.delta / 10);
  return maxTpr([{ epsilon, delta: ask.delta }, ...at.map((each, i): Point => ({ epsilon: each, delta: deltas[i]! }))], FPR);
}

/** Bound the true-positive rate of the best attack from the claim alone. */
export const boundTprOfClaim = (epsilon: number, delta: number): number => maxTpr([{ epsilon, delta }], FPR);

const interval = (upper: number, sampler: Loader, relation: string): IntervalModel => ({ lower: null, upper, method: sampler === "shuffled" ? "method/gaussian@1" : METHOD, relation, assumptions: [] });

export type QuickDPSGD = DPSGDResponse & { tpr?: number };

/** Return the browser's bounds of a run, with that on attacks; the server's replace them. */
export function planDPSGD(ask: DPSGDRequest): QuickDPSGD {
  const { sampler } = ask;
  if (sampler === "truncated-poisson" || (sampler === "poisson" && ask.relation === "replace-one"))
    throw new Problem("Needs the server", "The browser supports Poisson batches, under add-or-remove or zero-out, and shuffled ones.");
  const other = sampler === "poisson" ? "shuffled" : "poisson";
  const sigma = ask.epsilon === null ? ask.noise_multiplier! : findNoise(ask, sampler, ask.epsilon);
  const epsilon = boundEpsilon(ask, sampler, sigma);
  const otherEpsilon = other === "poisson" && ask.relation === "replace-one" ? Infinity : boundEpsilon(ask, other, sigma);
  const relation = ask.relation ?? (sampler === "shuffled" ? "zero-out" : "add-or-remove-one");
  return {
    ...ask,
    steps: countSteps(ask),
    passes: countPasses(ask),
    sampling_probability: sampler === "shuffled" ? null : ask.batch_size / ask.examples,
    noise_multiplier: sigma,
    noise_stddev: (sigma * ask.clip_norm) / ask.batch_size,
    delta_grade: ask.delta >= 1 / ask.examples ? "void" : ask.delta > 0.1 / ask.examples ? "weak" : "good",
    delta_sentence: "",
    relation,
    epsilon: interval(epsilon, sampler, relation),
    other_sampler: other,
    other_epsilon: interval(otherEpsilon, other, relation),
    loader_note: [`loader/${sampler}`, { other: otherEpsilon }],
    tpr: boundTpr(ask, sampler, sigma, epsilon),
  };
}

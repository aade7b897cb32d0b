// Upper bounds of one release of the comparison form, if a closed form or sampled.ts has one.

import type { CompareRequest, Part } from "../openapi";
import { deltasOf, epsilonOf } from "./sampled";

export interface Release {
  /** Return an upper bound on epsilon. */
  epsilon(delta: number): number;
  /** Return an upper bound on delta at each epsilon; `least` is the smallest delta of interest. */
  deltas(epsilons: readonly number[], least: number): number[];
}

const UP = 1 + 1e-12; // covers the rounding of a closed form

/** Return the browser's bounds of a release; null if only the server has one. */
export function releaseOf(part: Part, relation: CompareRequest["relation"]): Release | null {
  const { mechanism, parameter, count } = part;
  const q = part.sampling_probability ?? 1;
  const times = count ?? 1;
  const distance = relation === "replace-one" ? 2 : 1; // one removal and one addition
  switch (mechanism) {
    case "gaussian":
      return q < 1 && distance > 1 ? null : gaussian(parameter / distance, q, times);
    case "gdp":
      return gaussian(1 / parameter, 1, times);
    case "zcdp":
      return zcdp(parameter * times);
    case "laplace":
      return times === 1 && q === 1 ? decaying(distance / parameter, 1, 2) : null;
    case "pure":
      return times === 1 ? statedGuarantee(parameter, 0) : null;
    case "approximate":
      return times === 1 && (part.second ?? 0) <= 1 ? statedGuarantee(parameter, part.second ?? 0) : null;
    case "randomized-response":
      return times === 1 && distance > 1 && parameter <= 1 && (part.second ?? 2) >= 2 ? response(parameter, part.second ?? 2) : null;
    default:
      return null;
  }
}

const gaussian = (sigma: number, q: number, rounds: number): Release => ({
  epsilon: (delta) => epsilonOf({ sigma, q, rounds }, delta),
  deltas: (epsilons, least) => deltasOf({ sigma, q, rounds }, epsilons, least),
});

/** Return the curve delta(epsilon) = mass (1 - e^((epsilon - largest) / pace)) up to the largest loss, and 0 beyond. */
function decaying(largest: number, mass: number, pace: number): Release {
  const most = largest * UP + (UP - 1); // rounded up
  const epsilon = (delta: number): number => {
    if (delta >= mass) return 0;
    const found = most + pace * Math.log1p(-delta / mass);
    return Math.max(0, found + (UP - 1) * (1 + most));
  };
  const at = (given: number): number => (given >= most ? 0 : Math.min(1, -mass * Math.expm1((given - most) / pace) + (UP - 1) * mass * (1 + most)));
  return Number.isFinite(most) ? { epsilon, deltas: (epsilons) => epsilons.map(at) } : never(mass);
}

/** Return the curve of outcomes with an infinite loss of that mass. */
const never = (mass: number): Release => ({ epsilon: (delta) => (delta >= mass ? 0 : Infinity), deltas: (epsilons) => epsilons.map(() => mass) });

/** Return the worst case of a stated (epsilon, delta): randomized response (Kairouz et al. 2015). */
function statedGuarantee(largest: number, lost: number): Release {
  const pure = decaying(largest, UP / (1 + Math.exp(-largest)), 1);
  return {
    epsilon: (delta) => (delta < lost ? Infinity : pure.epsilon(((delta - lost) / (1 - lost)) * (2 - UP))),
    deltas: (epsilons) => pure.deltas(epsilons, 0).map((delta) => Math.min(1, (lost + (1 - lost) * delta) * UP)),
  };
}

/** Return the curve of randomized response: the true category with probability 1 - flip, else a uniform one. */
function response(flip: number, categories: number): Release {
  const other = flip / categories;
  const truth = 1 - flip + other;
  return flip === 0 ? never(1) : decaying(Math.log(truth / other), Math.min(1, truth * UP), 1);
}

// Renyi orders minus 1
const ORDERS: readonly number[] = Array.from({ length: 160 }, (_, i) => 10 ** (i / 20 - 4));

/** Return the curve of rho-zCDP: the best Renyi order (Canonne, Kamath & Steinke 2020, Prop. 12). */
function zcdp(rho: number): Release {
  const loss = (order: number): number => (order + 1) * rho + Math.log1p(-1 / (order + 1));
  const logDelta = (epsilon: number): number => ORDERS.reduce((least, order) => Math.min(least, order * (loss(order) - epsilon) - Math.log1p(order)), 0);
  return {
    epsilon: (delta) => Math.max(0, ORDERS.reduce((least, order) => Math.min(least, loss(order) - (Math.log(delta) + Math.log1p(order)) / order), Infinity)) * UP,
    deltas: (epsilons) => epsilons.map((epsilon) => Math.min(1, Math.exp(logDelta(epsilon)) * UP + Number.MIN_VALUE)),
  };
}

// Upper bounds on delta and epsilon of a federated schedule of Poisson-sampled Gaussian rounds.

import { type Round, round } from "./cells";
import { gaussianDelta, gaussianEpsilon } from "./gaussian";
import { Composed } from "./inversion";

const LEAST_NOISE = 0.03; // below it, the rounds that include a unit count as visible
const MOST_NOISE = 1e6;
const MOST_ROUNDS = 1e9; // up to here the accumulated errors stay small

export interface Schedule {
  sigma: number;
  q: number;
  rounds: number;
}

/** Return the reach of the cells that leaves out a millionth of delta. */
const reachOf = (rounds: number, log: number): number => Math.ceil(4 * Math.sqrt(2 * (Math.log(rounds) - log + 13))) / 4;

// cached for the next request; cells that reach slightly further are equally good
let kept: { sigma: number; q: number; reach: number; round: Round } | null = null;

function cells(sigma: number, q: number, reach: number): Round {
  const near = kept !== null && kept.sigma === sigma && kept.q === q && kept.reach >= reach && kept.reach < reach + 2;
  if (!near) kept = { sigma, q, reach, round: round(sigma, q, reach) };
  return kept!.round;
}

const gaussianMu = (rounds: number, sigma: number): number => (sigma === 0 ? Infinity : (Math.sqrt(rounds) / sigma) * (1 + 1e-15));
const isSupported = ({ sigma, q, rounds }: Schedule): boolean => q < 1 && sigma >= LEAST_NOISE && sigma <= MOST_NOISE && rounds <= MOST_ROUNDS;

const POWER = 1 / 16; // ratio of the delta shares tried, as in Python (pairs/counts.py)

/** Bound the rounds that include a unit, except with probability exp(`log`) by Chernoff's bound. */
function maxParticipations({ q, rounds }: Schedule, log: number): number {
  const rare = (most: number): boolean => {
    const [k, rest] = [most + 1, rounds - most - 1];
    if (k > rounds) return true;
    if (k <= rounds * q) return false;
    const seen = k * (Math.log(k) - Math.log(rounds) - Math.log(q));
    const missed = rest === 0 ? 0 : rest * (Math.log1p(-k / rounds) - Math.log1p(-q));
    const sizes = k * (Math.abs(Math.log(k)) + Math.log(rounds) + Math.abs(Math.log(q)) + 1) + Math.abs(missed) + rest * q;
    return seen + missed - 2 ** -46 * (sizes + rest) >= -log;
  };
  let [low, high] = [-1, rounds];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (rare(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Return an upper bound on epsilon if participation is visible: docs/accounting/certified-bounds.md, 1.5. */
function seenEpsilon(schedule: Schedule, delta: number): number {
  let spent = POWER;
  while (spent > delta / 2) spent *= POWER;
  if (spent === 0) return Infinity;
  return gaussianEpsilon(gaussianMu(maxParticipations(schedule, Math.log(spent)), schedule.sigma), (delta - spent) * (1 - 2 ** -50));
}

/** Return upper bounds on delta if participation is visible, down to `least`. */
function seenDeltas(schedule: Schedule, epsilons: readonly number[], least: number): number[] {
  const ways: { spent: number; mu: number }[] = [];
  for (let spent = POWER; spent > POWER ** 3 * least; spent *= POWER) ways.push({ spent, mu: gaussianMu(maxParticipations(schedule, Math.log(spent)), schedule.sigma) });
  return epsilons.map((epsilon) => {
    let found = 1;
    for (const { spent, mu } of ways) if (spent < found) found = Math.min(found, (gaussianDelta(mu, epsilon) + spent) * (1 + 2 ** -50));
    return found;
  });
}

/** Return an upper bound on epsilon. */
export function epsilonOf(schedule: Schedule, delta: number): number {
  const { sigma, q, rounds } = schedule;
  if (q === 0 || rounds === 0) return 0;
  if (sigma === 0) return Infinity;
  if (rounds * q * gaussianDelta(1 / sigma, 0) * (1 + 1e-12) <= delta) return 0; // deltas at 0 add up
  const plain = Math.min(gaussianEpsilon(gaussianMu(rounds, sigma), delta), q < 1 ? seenEpsilon(schedule, delta) : Infinity);
  if (!isSupported(schedule)) return plain;
  const log = Math.log(delta);
  const { remove, add } = cells(sigma, q, reachOf(rounds, log));
  const first = new Composed(remove, rounds).epsilon(log);
  const pure = -rounds * Math.log1p(-q) * (1 + 1e-14); // under ADD, a round's loss is at most -ln(1 - q)
  const second = pure <= first ? 0 : Math.min(pure, new Composed(add, rounds).epsilon(log, first));
  const sampled = Math.max(first, second);
  return Number.isNaN(sampled) ? plain : Math.min(sampled, plain);
}

/** Return an upper bound on delta at each epsilon; `least` is the smallest delta of interest. */
export function deltasOf(schedule: Schedule, epsilons: readonly number[], least = 1e-12): number[] {
  const { sigma, q, rounds } = schedule;
  if (q === 0 || rounds === 0) return epsilons.map(() => 0);
  if (sigma === 0) return epsilons.map(() => 1);
  const seen = q < 1 ? seenDeltas(schedule, epsilons, least) : epsilons.map(() => 1);
  const flat = rounds * q * gaussianDelta(1 / sigma, 0) * (1 + 1e-12);
  const plain = epsilons.map((epsilon, i) => Math.min(seen[i]!, flat, gaussianDelta(gaussianMu(rounds, sigma), epsilon)));
  if (!isSupported(schedule)) return plain;
  const { remove, add } = cells(sigma, q, reachOf(rounds, Math.log(least)));
  const pure = -rounds * Math.log1p(-q) * (1 + 1e-14);
  const first = new Composed(remove, rounds).deltas(epsilons);
  const second = new Composed(add, rounds).deltas(epsilons);
  return epsilons.map((epsilon, i) => {
    const sampled = Math.exp(Math.max(first[i]!, epsilon >= pure ? -Infinity : second[i]!)) * (1 + 1e-13);
    return Math.min(plain[i]!, Number.isNaN(sampled) ? 1 : sampled + Number.MIN_VALUE);
  });
}

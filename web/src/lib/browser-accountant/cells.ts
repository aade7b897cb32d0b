// A discrete upper bound on the privacy loss of one Poisson-sampled Gaussian round: docs/accounting/in-the-browser.md.
//
// The output x = sigma t of a round is divided into cells. In each, the density ratio is moved to the cell's ends with its
// mean kept (under the distribution in the denominator), a spread in convex order: every delta grows, also under
// composition. This file computes the loss distribution of one round; inversion.ts composes rounds.

import { erfcx } from "./gaussian";

const STEP = 0.125; // of a cell, in standard deviations
const NARROW = 1e-3; // a cell with less of its mass at the upper end puts all of it there
const MILLS = 2 ** -47; // relative: twice the error of `mills`
const ROUND = 2 ** -50; // relative: eight roundings

export interface LossDistribution {
  losses: Float64Array; // increasing or decreasing, in nats
  logs: Float64Array; // ln of the mass at each, under the first distribution
  masses: Float64Array;
  massErrors: Float64Array; // relative error of each mass; the masses and the infinity mass sum to 1
  lossErrors: Float64Array; // error of each loss, including the division of mass between it and the next
  logInfinityMass: number; // ln of the mass at an infinite loss
}

export interface Round {
  remove: LossDistribution; // the data set with the unit against the one without it
  add: LossDistribution;
}

const mills = (t: number): number => Math.sqrt(Math.PI / 2) * erfcx(t * Math.SQRT1_2); // P(Z > t) over the density at t

/** Return P(a < Z < b) over the density of Z at a, and its relative error. */
function mass(a: number, b: number): [value: number, error: number] {
  const fall = (a - b) * ((a + b) / 2); // ln of the density at b over that at a
  const [first, second] = [mills(Math.abs(a)), mills(Math.abs(b)) * Math.exp(fall)];
  const value = a >= 0 ? first - second : b <= 0 ? second - first : Math.sqrt(2 * Math.PI) * Math.exp((a * a) / 2) - first - second;
  return [value, (MILLS * (1 + Math.abs(fall)) * (first + second)) / value + ROUND * (1 + a * a)];
}

/** Return ln(1 - q + q e^u) from q and ln q. */
function logMixture(u: number, q: number, log: number): number {
  return u < 30 ? Math.log1p(q * Math.expm1(u)) : u + log + Math.log1p(((1 - q) / q) * Math.exp(-u));
}

/** Return the cells' ends: up to `reach` standard deviations around both centers. */
function nodes(shift: number, reach: number): number[] {
  const span = (from: number, to: number): number[] => {
    const count = Math.ceil((to - from) / STEP);
    return Array.from({ length: count + 1 }, (_, i) => from + ((to - from) * i) / count);
  };
  return shift > 2 * reach ? [...span(-reach, reach), ...span(shift - reach, shift + reach)] : span(-reach, shift + reach);
}

/**
 * Return the loss distributions of one round at noise multiplier `sigma` > 0 and sampling probability 0 < `q` < 1.
 * `reach` leaves out e^(-reach^2/2) / 2 of the mass on each side; on the side of large losses it becomes infinity mass.
 */
export function round(sigma: number, q: number, reach: number): Round {
  const [shift, log] = [1 / sigma, Math.log(q)];
  const t = nodes(shift, reach);
  const n = t.length;
  const loss = new Float64Array(n);
  const off = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const u = shift * (t[i]! - shift / 2);
    loss[i] = logMixture(u, q, log);
    const share = Math.min(1, Math.exp(log + u - loss[i]!)); // derivative of the loss in u
    off[i] = ROUND * (share * shift * (Math.abs(t[i]!) + shift) + Math.abs(loss[i]!));
  }
  const [up, down] = [new Float64Array(n), new Float64Array(n)]; // logarithms of the masses
  const logInfinityMass = -(reach * reach) / 2 - Math.LN2; // ln of the mass beyond the ends on one side, rounded up
  const remove: LossDistribution = { losses: loss, logs: up, masses: up, massErrors: new Float64Array(n), lossErrors: off.slice(), logInfinityMass };
  const add: LossDistribution = { losses: loss.map((l) => -l), logs: down, masses: down, massErrors: new Float64Array(n), lossErrors: off.slice(), logInfinityMass };
  up.fill(-Infinity);
  down.fill(-Infinity);
  up[0] = logInfinityMass; // mass with a smaller loss than the first cell moves to its end, and likewise for `add`
  down[n - 1] = logInfinityMass;
  for (let i = 0; i + 1 < n; i++) {
    const [a, b] = [t[i]!, t[i + 1]!];
    const [plain, doubt] = mass(a, b);
    const [moved, other] = mass(a - shift, b - shift);
    const mean = moved / plain; // of e^u over the cell, divided by its value at the lower end
    const most = Math.expm1(shift * (b - a));
    const part = Math.min(1, Math.max(0, (mean - 1) / most)); // of the unsampled distribution's mass, at the upper end
    const u = shift * (a - shift / 2) + Math.log(mean);
    const [here, there] = [Math.log(plain) - (a * a) / 2 - Math.log(2 * Math.PI) / 2, logMixture(u, q, log)];
    let high = Math.min(1, part * Math.exp(loss[i + 1]! - there)); // of the mixture's mass, at the upper end
    if (!(high > NARROW)) high = 1;
    up[i] = plus(up[i]!, here + there + Math.log1p(-high));
    up[i + 1] = plus(up[i + 1]!, here + there + Math.log(high));
    let low = 1 - part; // of the unsampled distribution's mass, at the lower end, which is the upper end of the negated loss
    if (!(low > NARROW)) low = 1;
    down[i] = plus(down[i]!, here + Math.log(low));
    down[i + 1] = plus(down[i + 1]!, here + Math.log1p(-low));
    const unsure = doubt + other + ROUND * (1 + shift * Math.abs(a) + shift * shift);
    for (const j of [i, i + 1]) {
      remove.massErrors[j] = Math.max(remove.massErrors[j]!, unsure);
      add.massErrors[j] = Math.max(add.massErrors[j]!, unsure);
    }
    const slip = (2 * unsure * (loss[i + 1]! - loss[i]!)) / Math.min(1, most);
    remove.lossErrors[i + 1] = remove.lossErrors[i + 1]! + slip / high;
    add.lossErrors[i] = add.lossErrors[i]! + slip / low;
  }
  remove.masses = up.map(Math.exp);
  add.masses = down.map(Math.exp);
  return { remove, add };
}

/** Return ln(e^a + e^b). */
function plus(a: number, b: number): number {
  const [high, low] = a > b ? [a, b] : [b, a];
  return low === -Infinity ? high : high + Math.log1p(Math.exp(low - high));
}

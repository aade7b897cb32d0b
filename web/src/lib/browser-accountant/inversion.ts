// Delta and epsilon of many rounds from the loss distribution of one: docs/accounting/in-the-browser.md.
//
// delta(epsilon) = 1/(2 pi) Int M(z)^T e^(-epsilon z) / (z (z + 1)) dw on a line z = theta + iw, theta > 0. A sum over
// equally spaced w is delta plus its nonnegative copies; a narrow extra Gaussian release truncates the sum; and the errors
// of the moments M are added. Renyi DP is the same line with w = 0 only.

import type { LossDistribution } from "./cells";

const UNIT = 2 ** -53;
const OFF = 4 * UNIT; // relative error of an exponential or a complex product
const WORK = 400_000; // maximum complex products per line
const FINE = 0.004; // largest cost of the narrow Gaussian, in epsilon
const COPY = 6.5; // minimum distance of copies, in standard deviations
const RARE = 6; // -ln of the largest contribution of lower copies, in deltas
const FAR = 0.01; // largest contribution of upper copies through one extreme round, in deltas
const EASED = [1, 0.93, 0.86, 0.8, 0.74, 0.66, 0.58, 0.5, 0.4]; // fractions of the saddle's theta: smaller values weight large single losses less

/** The log moment of order theta, its two derivatives and its errors. */
interface Moment {
  log: number;
  mean: number;
  variance: number;
  tilted: Float64Array; // the distribution with weights e^(theta loss), summing to 1
  off: number; // relative rounding error of the moment, anywhere on the line
  doubt: number; // bound on the relative error from the masses
  slip: { masses: number; losses: number }; // relative errors from masses and losses, per unit of |z|
  wide: number; // mean absolute loss
  rest: number; // 1 minus the sum of the masses, over the moment
}

/** Return the error of a moment at |z| = `length`, relative to the moment on the real axis. */
const unsure = ({ off, doubt, slip }: Moment, length: number): number => off + Math.min(doubt, slip.masses * length) + slip.losses * length;

/** Estimate the log moment and its two derivatives; used for the search only, not as a bound. */
function glance({ losses, logs }: LossDistribution, theta: number): { log: number; mean: number; variance: number } {
  const n = losses.length;
  let top = -Infinity;
  for (let j = 0; j < n; j++) top = Math.max(top, logs[j]! + theta * losses[j]!);
  let [sum, first, second] = [0, 0, 0];
  for (let j = 0; j < n; j++) {
    const loss = losses[j]!;
    const weight = Math.exp(logs[j]! + theta * loss - top);
    sum += weight;
    first += weight * loss;
    second += weight * loss * loss;
  }
  const mean = first / sum;
  return { log: top + Math.log(sum), mean, variance: Math.max(1e-300, second / sum - mean * mean) };
}

export function moment({ losses, logs, masses: plains, massErrors, lossErrors, logInfinityMass }: LossDistribution, theta: number): Moment {
  const n = losses.length;
  const tilted = new Float64Array(n);
  let top = -Infinity;
  for (let j = 0; j < n; j++) {
    const log = logs[j]! + theta * losses[j]!;
    tilted[j] = log;
    if (log > top) top = log;
  }
  let sum = 0;
  for (let j = 0; j < n; j++) sum += tilted[j] = Math.exp(tilted[j]! - top);
  // the exact masses sum to 1: an error of a mass counts as e^(z loss) - 1, and the missing mass is added
  let [total, carry] = [0, 0];
  const tiny = Math.exp(-top) / sum;
  let [mean, size, wide, doubt, masses, slip] = [0, 0, 0, 0, 0, 0];
  for (let j = 0; j < n; j++) {
    const weight = (tilted[j] = tilted[j]! / sum);
    const plain = plains[j]!;
    const next = total + plain;
    carry += Math.abs(total) >= plain ? total - next + plain : plain - next + total;
    total = next;
    const far = Math.abs(losses[j]!);
    const more = Math.max(weight, plain * tiny);
    if (more === 0) continue;
    mean += weight * losses[j]!;
    wide += weight * far;
    size += weight * (Math.abs(logs[j]!) + theta * far);
    doubt += 2 * more * massErrors[j]!;
    masses += more * massErrors[j]! * far;
    slip += weight * lossErrors[j]!;
  }
  let variance = 0;
  for (let j = 0; j < n; j++) variance += tilted[j]! * (losses[j]! - mean) ** 2;
  const rest = (1 - total - carry) * tiny;
  const off = OFF * (size + 4) + 2 * UNIT * n + (Math.exp(logInfinityMass) + 8 * UNIT) * tiny;
  return { log: top + Math.log(sum) + Math.log1p(rest), mean, variance, tilted, off, doubt, slip: { masses, losses: slip }, wide, rest };
}

/** Return an approximate root of an increasing function between positive numbers, by bracketed Newton steps in ln x. */
function crossing(at: (x: number) => { value: number; slope: number }, low: number, high: number, start: number): number {
  let x = Math.min(high, Math.max(low, start));
  for (let i = 0; i < 60 && high / low > 1.01; i++) {
    const { value, slope } = at(x);
    if (value < 0) low = x;
    else high = x;
    const step = value / (slope * x);
    const next = x * Math.exp(-Math.min(3, Math.max(-3, step)));
    if (Math.abs(step) < 0.01) break;
    x = next > low && next < high ? next : Math.sqrt(low * high);
  }
  return x;
}

/** Return how far above the mean the losses reach outside a tail of mass `chance` of the tilted distribution. */
function furthest({ losses }: LossDistribution, { tilted, mean }: Moment, chance: number): number {
  const n = losses.length;
  const rising = losses[n - 1]! > losses[0]!;
  let sum = 0;
  for (let i = 0, j = rising ? n - 1 : 0; i < n; i++, j += rising ? -1 : 1) {
    sum += tilted[j]!;
    if (sum > chance) return Math.max(0, losses[j]! - mean);
  }
  return 0;
}

type Line = (epsilon: number) => number;

interface Plan {
  at: Moment;
  theta: number;
  width: number; // of the narrow Gaussian
  step: number; // between points of the line
  count: number; // number of points off the real axis
}

const SHARED = 3; // epsilons per line
const LEAST = 1e-6;
const MOST = 1e12;

/** Upper bounds on delta and epsilon of `rounds` rounds for one adjacency type. */
export class Composed {
  private start = 1;

  constructor(
    private readonly distribution: LossDistribution,
    private readonly rounds: number,
  ) {}

  /** ln of the infinity mass of all rounds. */
  private get lost(): number {
    return this.distribution.logInfinityMass + Math.log(this.rounds) + 1e-9;
  }

  /** Bound epsilon at delta exp(`log`); a looser bound if that is at most `enough`. */
  epsilon(log: number, enough = 0): number {
    const { distribution, rounds } = this;
    const logBudget = log + Math.log1p(-Math.exp(Math.min(-1e-9, this.lost - log))) - 1e-12;
    if (!(this.lost < log - 1)) return Infinity;
    const theta = crossing(
      (x) => {
        const { log: k, mean, variance } = glance(distribution, x);
        return { value: rounds * (x * mean - k) + logBudget + Math.log1p(x), slope: rounds * x * variance + 1 / (1 + x) };
      },
      LEAST,
      MOST,
      this.start,
    );
    this.start = theta;
    const at = moment(distribution, theta);
    const renyi = this.renyi(at, theta, logBudget);
    if (renyi <= enough) return Math.max(0, renyi);
    const single = this.single(log);
    let best = rounds === 1 ? Math.min(renyi, single) : renyi;
    if (rounds === 1 || best === 0) return best;
    // if one round dominates, the Renyi bound is loose: narrow the Gaussian and repeat near the better epsilon
    for (let pass = 0, guess = renyi; pass < 5; pass++) {
      const fine = pass === 0 ? FINE : FINE / 4;
      best = Math.min(best, this.least(this.best(at, theta, logBudget, guess, Math.sqrt(2 * fine * guess)), logBudget, best));
      if (best > 0.75 * guess || best === 0) break;
      guess = Math.max(0.2 * best, Math.min(0.9 * best, single));
    }
    return best;
  }

  /** Return the epsilon of a single round at its share of delta. */
  private single(log: number): number {
    const { losses, masses } = this.distribution;
    const most = losses.reduce((a, b) => Math.max(a, b));
    const logBudget = Math.exp(log - Math.log(this.rounds)) * (1 - 2 ** -19); // less the mass beyond the cells
    const delta = (epsilon: number): number => {
      let sum = 0;
      for (let j = 0; j < losses.length; j++) if (losses[j]! > epsilon) sum -= masses[j]! * Math.expm1(epsilon - losses[j]!);
      return sum * (1 + 1e-9);
    };
    if (delta(0) <= logBudget) return 0;
    let [low, high] = [0, Math.max(0, most)];
    for (let i = 0; i < 40 && high - low > 1e-7 * high; i++) {
      const middle = (low + high) / 2;
      if (delta(middle) <= logBudget) high = middle;
      else low = middle;
    }
    return high;
  }

  private least(line: Line | null, logBudget: number, most: number): number {
    if (line === null || !(line(most) <= logBudget)) return most;
    if (line(0) <= logBudget) return 0;
    let [low, high] = [0, most];
    for (let i = 0; i < 60 && high - low > 1e-7 * high; i++) {
      const middle = (low + high) / 2;
      if (line(middle) <= logBudget) high = middle;
      else low = middle;
    }
    return high;
  }

  /** Bound ln delta at each epsilon; adjacent epsilons share lines, each of which bounds all. */
  deltas(epsilons: readonly number[]): number[] {
    const lines = epsilons.filter((_, i) => i % SHARED === 0).map((epsilon) => this.about(epsilon));
    return epsilons.map((epsilon) => {
      const log = lines.reduce((least, line) => Math.min(least, line(epsilon)), 0);
      return Math.min(0, Math.max(log, this.lost) + Math.log1p(Math.exp(-Math.abs(log - this.lost))));
    });
  }

  /** Return a bound on ln delta that is tight near one epsilon. */
  private about(epsilon: number): Line {
    const { distribution, rounds } = this;
    const theta = crossing(
      (x) => {
        const { mean, variance } = glance(distribution, x);
        return { value: rounds * mean - epsilon - 1 / x - 1 / (x + 1), slope: rounds * variance + 1 / (x * x) + 1 / ((x + 1) * (x + 1)) };
      },
      LEAST,
      1e5,
      this.start,
    );
    this.start = theta;
    const at = moment(distribution, theta);
    const height = rounds * (at.log + unsure(at, theta)) + theta * Math.log(theta) - (theta + 1) * Math.log1p(theta);
    const renyi: Line = (e) => height - theta * e + 1e-12 * (1 + Math.abs(height) + theta * e); // Canonne et al., Prop. 12
    const line = this.best(at, theta, renyi(epsilon) - 3, epsilon, Math.sqrt(Math.max(0.02 / theta, 2 * FINE * epsilon)));
    return line === null ? renyi : (e) => Math.min(renyi(e), line(e));
  }

  /** Return the Renyi bound on epsilon at order theta + 1 (Canonne, Kamath & Steinke 2020, Prop. 12). */
  private renyi(at: Moment, theta: number, log: number): number {
    const terms = [this.rounds * (at.log + unsure(at, theta)), -log, theta * Math.log(theta / (1 + theta)), -Math.log1p(theta)];
    const slack = 1e-14 * terms.reduce((sum, term) => sum + Math.abs(term), 0);
    return (terms.reduce((sum, term) => sum + term, 0) + slack) / theta;
  }

  /** Return the line with the fewest points among several at or below the saddle. */
  private best(saddle: Moment, most: number, log: number, epsilon: number, narrow: number): Line | null {
    const { distribution, rounds } = this;
    const plans = EASED.map((share) => {
      const theta = share * most;
      const at = share === 1 ? saddle : moment(distribution, theta);
      const width = narrow / Math.sqrt(theta + 1);
      const spread = Math.sqrt(rounds * at.variance + width * width);
      const height = Math.max(0, rounds * at.log - theta * epsilon - log); // ln of the integrand's height over delta
      const period = Math.max(COPY * spread, (RARE - log) / theta, furthest(distribution, at, (FAR * Math.exp(-height)) / rounds));
      const size = Math.max(0, height + Math.log(width));
      return { at, theta, width, step: (2 * Math.PI) / period, count: Math.ceil((Math.sqrt(2 * (9 + size)) / width / 2 / Math.PI) * period) };
    });
    return this.line(plans.reduce((a, b) => (b.count < a.count ? b : a)));
  }

  /** Return the bound on ln delta of one line, as a function of epsilon; null if rounding dominates. */
  private line({ at, theta, step, ...plan }: Plan): Line | null {
    const { distribution, rounds } = this;
    const { losses } = distribution;
    const n = losses.length;
    let { count, width } = plan;
    if (count * n > WORK) {
      width *= (count * n) / WORK;
      count = Math.floor(WORK / n);
    }
    // e^(iw loss) for each loss, by repeated rotation
    const [re, im, turnRe, turnIm] = [new Float64Array(n), new Float64Array(n), new Float64Array(n), new Float64Array(n)];
    let used = 0; // losses of negligible weight are skipped
    for (let j = 0; j < n; j++) {
      const weight = at.tilted[j]!;
      if (weight < 1e-19) continue;
      const angle = step * (losses[j]! - at.mean);
      re[used] = weight;
      turnRe[used] = Math.cos(angle);
      turnIm[used] = Math.sin(angle);
      used++;
    }
    const [real, imaginary] = [new Float64Array(count + 1), new Float64Array(count + 1)];
    const share = step / (2 * Math.PI);
    let wrong = 0;
    const drift = rounds * at.mean + (width * width * (2 * theta + 1)) / 2; // of the phase, per w
    real[0] = share / (theta * (theta + 1));
    for (let m = 1; m <= count; m++) {
      const w = m * step;
      let [sumRe, sumIm] = [at.rest * Math.cos(w * at.mean), -at.rest * Math.sin(w * at.mean)];
      for (let j = 0; j < used; j++) {
        const [a, b] = [re[j]!, im[j]!];
        const [c, d] = [turnRe[j]!, turnIm[j]!];
        const [x, y] = [a * c - b * d, a * d + b * c];
        re[j] = x;
        im[j] = y;
        sumRe += x;
        sumIm += y;
      }
      const ratio = Math.hypot(sumRe, sumIm) / (1 + at.rest);
      const cut = Math.exp((-width * width * w * w) / 2);
      const [over, turned] = [theta * (theta + 1) - w * w, w * (2 * theta + 1)]; // z (z + 1)
      const fall = (2 * share * cut) / Math.hypot(over, turned);
      const size = fall * Math.exp(rounds * Math.log(ratio));
      const phase = rounds * Math.atan2(sumIm, sumRe) - Math.atan2(turned, over);
      real[m] = size * Math.cos(phase);
      imaginary[m] = size * Math.sin(phase);
      const off = unsure(at, Math.hypot(theta, w)) + OFF * (m + w * (at.wide + Math.abs(at.mean)));
      const powers = rounds * off * Math.exp((rounds - 1) * Math.log(Math.min(1 + off, ratio + off)));
      wrong += fall * powers + size * OFF * (4 + Math.abs(phase) + w * Math.abs(drift));
    }
    const reach = count * step;
    const swell = Math.expm1(rounds * unsure(at, theta)); // relative error of the real moment to the power of the rounds
    const beyond = ((1 + swell) * Math.exp((-width * width * reach * reach) / 2)) / (Math.PI * reach);
    const height = rounds * at.log + (width * width * theta * (theta + 1)) / 2;
    wrong = (wrong + beyond + real[0]! * swell) * (1 + 1e-9);
    if (!Number.isFinite(wrong) || !Number.isFinite(height)) return null;
    return (epsilon) => {
      // sum over m of Re(c_m e^(-iw_m (epsilon - drift))), by rotation
      const lag = step * (drift - epsilon);
      const [c, d] = [Math.cos(lag), Math.sin(lag)];
      let [x, y, sum, sizes] = [1, 0, real[0]!, real[0]!];
      for (let m = 1; m <= count; m++) {
        [x, y] = [x * c - y * d, x * d + y * c];
        sum += real[m]! * x - imaginary[m]! * y;
        sizes += (Math.abs(real[m]!) + Math.abs(imaginary[m]!)) * m;
      }
      const off = wrong + sizes * OFF * (4 + Math.abs(lag)) + OFF * step * (epsilon + Math.abs(drift)) * sizes;
      const total = Math.max(sum, 0) + off;
      return height - theta * epsilon + Math.log(total) + 1e-14 * (Math.abs(height) + theta * epsilon);
    };
  }
}

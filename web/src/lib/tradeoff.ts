// The trade-off function: bounds on an attacker's true-positive rate from delta at several epsilons.

import { logNdtr } from "./browser-accountant/gaussian";

export interface Point {
  epsilon: number;
  delta: number;
}

/** Return the largest TPR at an FPR; each point of the profile bounds it from both ends of the curve. */
export function maxTpr(profile: readonly Point[], fpr: number): number {
  return profile.reduce((least, { epsilon, delta }) => {
    const odds = Math.exp(epsilon);
    const early = delta + odds * fpr; // P(A) <= e^epsilon Q(A) + delta
    const late = 1 - (1 - delta - fpr) / odds; // the same for the complement, with the data sets exchanged
    return Math.min(least, early, fpr <= 1 - delta ? late : 1);
  }, 1);
}

/** Return the quantile of a unit Gaussian. */
export function quantile(probability: number): number {
  if (probability <= 0) return -Infinity;
  if (probability >= 1) return Infinity;
  let [low, high] = [-40, 40];
  const log = Math.log(probability);
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (logNdtr(middle) < log) low = middle;
    else high = middle;
  }
  return high;
}

/** Return the distance of two unit Gaussians for which the best test has this TPR at that FPR. */
export const gaussianDistance = (fpr: number, tpr: number): number => Math.max(0, quantile(tpr) - quantile(fpr));

/** The FPRs at which a curve is drawn: denser where it bends. */
export const RATES: readonly number[] = Array.from({ length: 61 }, (_, i) => (i / 60) ** 2.5);

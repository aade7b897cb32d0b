// Popular closed forms, shown but never claimed: the formulas of epsilog.accounting.closed_forms.

export interface FederatedEstimate {
  root_term: number;
  linear_term: number;
  total: number;
  dominant_term: "root" | "linear";
}

/** Return q sqrt(2 T ln(1/delta)) / sigma + T q^2 / sigma^2: an estimate, no bound. */
export function federatedClosedForm(q: number, sigma: number, rounds: number, delta: number): FederatedEstimate {
  if (sigma === 0) return { root_term: Infinity, linear_term: Infinity, total: Infinity, dominant_term: "root" };
  const rate = q / sigma;
  const root = rate * Math.sqrt(-2 * rounds * Math.log(delta));
  const linear = rounds * rate * rate;
  return { root_term: root, linear_term: linear, total: root + linear, dominant_term: root >= linear ? "root" : "linear" };
}

/** Return the textbook noise multiplier of the Gaussian mechanism: sqrt(2 ln(1.25/delta)) / epsilon. Proven for epsilon below 1 only. */
export const classicGaussian = (epsilon: number, delta: number): number =>
  Math.sqrt(2 * Math.log(1.25 / delta)) / epsilon;

export const NORMAL_95 = 1.959963984540054;
export const LAPLACE_95 = Math.log(20);

/** Return the model size at which one round's noise is as long as the longest average update: noise C sqrt(d) / cohort = C. */
export const sizeOfEqualNoise = (cohort: number, noise: number): number => (cohort / noise) ** 2;

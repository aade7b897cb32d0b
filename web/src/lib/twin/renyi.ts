// Renyi DP of the Poisson-sampled Gaussian at whole orders, rounded up (Mironov et al. 2019; Canonne et al. 2020).

export const ORDERS: readonly number[] = [
  ...Array.from({ length: 63 }, (_, i) => i + 2),
  ...[72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 768, 1024, 2048, 4096],
];

/** Bounds the divergence of one round at one whole order, in nats. */
export function sampledGaussian(order: number, sigma: number, q: number): number {
  if (q === 0) return 0;
  if (sigma === 0) return Infinity;
  if (q === 1) return order / (2 * sigma * sigma);
  const [present, absent] = [Math.log(q), Math.log1p(-q)];
  const terms: number[] = [];
  let choose = 0; // ln of the binomial coefficient
  for (let k = 0; k <= order; k++) {
    terms.push(choose + k * present + (order - k) * absent + (k * (k - 1)) / (2 * sigma * sigma));
    choose += Math.log((order - k) / (k + 1));
  }
  const largest = terms.reduce((a, b) => Math.max(a, b));
  const total = largest + Math.log(terms.reduce((sum, term) => sum + Math.exp(term - largest), 0));
  return Math.max(0, total + 1e-12 * (1 + Math.abs(total))) / (order - 1);
}

/** The divergence of one round at every order; rounds multiply it. */
export const perRound = (sigma: number, q: number): number[] => ORDERS.map((order) => sampledGaussian(order, sigma, q));

/** Bounds epsilon of `rounds` rounds from above. */
export function renyiEpsilon(round: readonly number[], rounds: number, delta: number): number {
  let best = Infinity;
  ORDERS.forEach((order, i) => {
    const bound = rounds * round[i]! + Math.log1p(-1 / order) - (Math.log(delta) + Math.log(order)) / (order - 1);
    if (bound < best) best = bound;
  });
  return Math.max(0, best * (1 + 1e-12));
}

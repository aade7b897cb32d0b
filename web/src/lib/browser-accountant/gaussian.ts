// Upper bounds for the Gaussian mechanism (Balle & Wang 2018), compared with Python by shared vectors.

const ROOT_PI = Math.sqrt(Math.PI);

/** Return exp(x^2) erfc(x) for x >= 0: a power series near 0, a continued fraction elsewhere. */
export function erfcx(x: number): number {
  if (x < 1) {
    let term = x;
    let sum = x;
    for (let n = 1; term > 1e-18 * sum; n++) {
      term *= (2 * x * x) / (2 * n + 1);
      sum += term;
    }
    return Math.exp(x * x) - (2 / ROOT_PI) * sum;
  }
  let tail = x;
  for (let n = Math.ceil(40 + 260 / x); n > 0; n--) tail = x + n / 2 / tail;
  return 1 / (ROOT_PI * tail);
}

/** Return ln P(Z <= x) for a unit Gaussian. */
export function logNdtr(x: number): number {
  if (x <= 0) return Math.log(erfcx(-x * Math.SQRT1_2) / 2) - (x * x) / 2;
  return Math.log1p((-erfcx(x * Math.SQRT1_2) / 2) * Math.exp((-x * x) / 2));
}

/** Return an upper bound on delta(epsilon) of unit Gaussians at distance mu. */
export function gaussianDelta(mu: number, epsilon: number): number {
  if (mu === 0) return Math.max(0, -Math.expm1(Math.min(epsilon, 0)));
  if (!Number.isFinite(mu)) return 1;
  const t = epsilon / mu - mu / 2;
  let value: number;
  let scale: number;
  if (t <= 0) {
    scale = Math.exp(logNdtr(-t));
    value = scale - Math.exp(epsilon + logNdtr(-t - mu));
  } else {
    const peak = Math.exp((-t * t) / 2) / Math.sqrt(2 * Math.PI);
    const mills = (y: number): number => (ROOT_PI / Math.SQRT2) * erfcx(y * Math.SQRT1_2);
    scale = peak * mills(t);
    value = peak * (mills(t) - mills(t + mu));
  }
  const slip = 2 ** -51 * (Math.abs(epsilon / mu) + mu / 2) * (1 + Math.abs(t)); // the error of t, and its effect
  return Math.min(1, Math.max(0, value) + scale * (2e-14 + 4 * slip) + Number.MIN_VALUE);
}

/** Return an upper bound on epsilon(delta) of unit Gaussians at distance mu. */
export function gaussianEpsilon(mu: number, delta: number): number {
  if (!Number.isFinite(mu)) return Infinity;
  if (gaussianDelta(mu, 0) <= delta) return 0;
  const reach = (mu * mu) / 2 + mu * Math.sqrt(-2 * Math.log(delta));
  return least((epsilon) => gaussianDelta(mu, epsilon) <= delta, 0, reach * (1 + 1e-9));
}

/** Return the smallest noise multiplier that is (epsilon, delta)-DP, rounded up. */
export function gaussianNoise(epsilon: number, delta: number): number {
  let low = 1;
  while (gaussianDelta(low, epsilon) > delta && low > 1e-300) low /= 2;
  let high = 2 * low;
  while (gaussianDelta(high, epsilon) <= delta) high *= 2;
  const fails = least((mu) => gaussianDelta(mu, epsilon) > delta, low, high);
  return (1 + 1e-12) / fails;
}

/** Return the smallest number where a monotone test holds, by bisection; the test holds there. */
export function least(holds: (x: number) => boolean, low: number, high: number): number {
  for (let i = 0; i < 200; i++) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

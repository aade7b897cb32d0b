// What an attacker may find, against bells for which it is known exactly.

import { describe, expect, test } from "vitest";
import { stops } from "../src/components/Drag";
import { maxTpr } from "../src/lib/tradeoff";
import { gaussianDelta, logNdtr } from "../src/lib/browser-accountant/gaussian";

/** The quantile of a unit Gaussian. */
function quantile(probability: number): number {
  let [low, high] = [-40, 40];
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (logNdtr(middle) < Math.log(probability)) low = middle;
    else high = middle;
  }
  return high;
}

const RATES = Array.from({ length: 61 }, (_, i) => (i / 60) ** 2.5);
const power = (mu: number, fpr: number): number => Math.exp(logNdtr(quantile(fpr) + mu));
const profile = (mu: number) => Array.from({ length: 40 }, (_, i) => (i / 20) * (mu * mu + 2 * mu)).map((epsilon) => ({ epsilon, delta: gaussianDelta(mu, epsilon) }));

describe.each([0.01, 0.3, 1, 3])("bells %d apart", (mu) => {
  test.each([0.001, 0.01, 0.2, 0.5, 0.9])("the share found at an FPR of %d is never too low, and hardly too high", (fpr) => {
    const got = maxTpr(profile(mu), fpr);
    expect(got).toBeGreaterThanOrEqual(power(mu, fpr));
    expect(got).toBeLessThanOrEqual(Math.min(1, 1.02 * power(mu, fpr) + 0.002));
  });
  test("the curve rises from nothing to all", () => {
    const curve = RATES.map((fpr) => maxTpr(profile(mu), fpr));
    curve.forEach((tpr, i) => {
      expect(tpr).toBeGreaterThanOrEqual(Math.max(RATES[i]!, curve[i - 1] ?? 0) - 1e-12);
      expect(tpr).toBeLessThanOrEqual(1);
    });
    expect(curve.at(-1)).toBe(1);
  });
});

test("without a guarantee, all can be found", () => {
  expect(maxTpr([{ epsilon: 0, delta: 1 }], 0.01)).toBe(1);
});

test.each([[0.3, 30], [0.01, 20]])("a handle from %d to %d goes up by steps that show", (low, high) => {
  const all = stops(low, high);
  expect([all[0], all.at(-1)]).toEqual([low, high]);
  all.slice(1).forEach((stop, i) => {
    expect(stop).toBeGreaterThan(all[i]!);
    expect(stop / all[i]!).toBeLessThanOrEqual(1.1);
  });
});

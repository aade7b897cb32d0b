// What the browser bounds of one release, against outcomes counted one by one, and against mechanisms that keep a promise.

import { describe, expect, test } from "vitest";
import type { CompareRequest, Part } from "../src/lib/openapi";
import { gaussianDelta, gaussianEpsilon } from "../src/lib/browser-accountant/gaussian";
import { releaseOf } from "../src/lib/browser-accountant/releases";

const part = (mechanism: Part["mechanism"], parameter: number, more: Partial<Part> = {}): Part => ({ mechanism, parameter, second: null, sampling_probability: 1, count: 1, ...more });
const bounded = (of: Part, relation: CompareRequest["relation"] = "add-or-remove-one") => releaseOf(of, relation)!;
const EPSILONS = [0, 0.01, 0.3, 0.9, 1.5, 4];
const DELTAS = [1e-12, 1e-6, 1e-3, 0.1, 0.6];

/** The sum of (P - e^epsilon Q)+ over outcomes. */
const counted = (outcomes: readonly (readonly [p: number, q: number])[], epsilon: number): number =>
  outcomes.reduce((sum, [p, q]) => sum + Math.max(0, p - Math.exp(epsilon) * q), 0);

/** Never below the truth, and hardly above it; each epsilon comes back from its delta. */
function holds(of: Part, truth: (epsilon: number) => number, relation?: CompareRequest["relation"], slack = 1e-9): void {
  const release = bounded(of, relation);
  release.deltas(EPSILONS, 1e-12).forEach((delta, i) => {
    const exact = truth(EPSILONS[i]!);
    expect(delta).toBeGreaterThanOrEqual(exact * (1 - 1e-13) - 1e-15);
    expect(delta).toBeLessThanOrEqual(exact * (1 + slack) + 1e-10);
  });
  for (const delta of DELTAS) {
    const epsilon = release.epsilon(delta);
    if (!Number.isFinite(epsilon)) continue;
    expect(truth(epsilon)).toBeLessThanOrEqual(delta * (1 + 1e-12));
    if (epsilon > 1e-6) expect(truth(epsilon * (1 - 1e-6) - 1e-9)).toBeGreaterThan(delta * (1 - slack) - 1e-12);
  }
}

describe("exactly", () => {
  test.each([0.2, 1, 2, 30])("Laplace noise of %d, cut into small outcomes", (scale) => {
    const cells = 10_000;
    const mass = (from: number, to: number, centre: number): number => {
      const below = (x: number): number => (x < 0 ? Math.exp(x / scale) / 2 : 1 - Math.exp(-x / scale) / 2);
      return below(to - centre) - below(from - centre);
    };
    for (const [relation, apart] of [["add-or-remove-one", 1], ["zero-out", 1], ["replace-one", 2]] as const) {
      const step = apart / cells; // the loss changes between the centres only
      const inner = Array.from({ length: cells }, (_, i) => [mass(i * step, (i + 1) * step, 0), mass(i * step, (i + 1) * step, apart)] as const);
      const outcomes = [[0.5, Math.exp(-apart / scale) / 2] as const, ...inner];
      const release = bounded(part("laplace", scale), relation);
      release.deltas(EPSILONS, 1e-12).forEach((delta, i) => expect(delta).toBeCloseTo(counted(outcomes, EPSILONS[i]!), 6));
      for (const delta of DELTAS) expect(counted(outcomes, release.epsilon(delta))).toBeLessThanOrEqual(delta + 1e-9);
    }
  });
  test.each([[0.5, 2], [0.5, 4], [0.01, 10], [1, 3]] as const)("randomized response with flip probability %d of %d", (flip, categories) => {
    const [truth, other] = [1 - flip + flip / categories, flip / categories];
    const outcomes = [[truth, other] as const, [other, truth] as const, ...Array.from({ length: categories - 2 }, () => [other, other] as const)];
    holds(part("randomized-response", flip, { second: categories }), (epsilon) => counted(outcomes, epsilon), "replace-one");
  });
  test.each([0.1, 1, 5])("a stated epsilon of %d, by the two outcomes that are its worst", (largest) => {
    const p = 1 / (1 + Math.exp(-largest));
    holds(part("pure", largest), (epsilon) => counted([[p, 1 - p], [1 - p, p]], epsilon));
    const lost = 1e-4;
    holds(part("approximate", largest, { second: lost }), (epsilon) => lost + (1 - lost) * counted([[p, 1 - p], [1 - p, p]], epsilon));
    expect(bounded(part("approximate", largest, { second: lost })).epsilon(lost / 2)).toBe(Infinity);
  });
  test.each([[1, 1], [0.2, 9]] as const)("Gaussian noise, and mu of %d, %d times", (mu, count) => {
    const all = mu * Math.sqrt(count);
    holds(part("gdp", mu, { count }), (epsilon) => gaussianDelta(all, epsilon) * (1 - 1e-12));
    expect(bounded(part("gaussian", 1 / mu, { count })).epsilon(1e-6)).toBeCloseTo(gaussianEpsilon(all, 1e-6), 9);
    expect(bounded(part("gaussian", 1 / mu, { count }), "replace-one").epsilon(1e-6)).toBeCloseTo(gaussianEpsilon(2 * all, 1e-6), 9);
  });
});

test.each([1e-6, 0.01, 0.5, 20])("rho of %d covers the Gaussian that has it, within a fifth of epsilon", (rho) => {
  const release = bounded(part("zcdp", rho / 4, { count: 4 }));
  const mu = Math.sqrt(2 * rho);
  release.deltas(EPSILONS, 1e-12).forEach((delta, i) => expect(delta).toBeGreaterThanOrEqual(gaussianDelta(mu, EPSILONS[i]!) * (1 - 1e-11) - 1e-300));
  for (const delta of [1e-12, 1e-6, 1e-3]) {
    expect(release.epsilon(delta)).toBeGreaterThanOrEqual(gaussianEpsilon(mu, delta) * (1 - 1e-12));
    expect(release.epsilon(delta)).toBeLessThanOrEqual(1.2 * gaussianEpsilon(mu, delta) + 0.01);
  }
});

test("what has no bound here waits for the server", () => {
  for (const of of [part("laplace", 1, { count: 2 }), part("laplace", 1, { sampling_probability: 0.1 }), part("pure", 1, { count: 2 }), part("randomized-response", 0.5, { second: 2 })])
    expect(releaseOf(of, "add-or-remove-one")).toBeNull();
  expect(releaseOf(part("gaussian", 1, { sampling_probability: 0.1 }), "replace-one")).toBeNull();
});

test.each(["gaussian", "laplace"] as const)("no %s noise hides nothing", (mechanism) => {
  expect(bounded(part(mechanism, 0)).epsilon(1e-6)).toBe(Infinity);
  expect(bounded(part(mechanism, 0)).deltas([1], 1e-12)).toEqual([1]);
});

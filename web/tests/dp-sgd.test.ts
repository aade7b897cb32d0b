import { expect, test } from "vitest";
import { boundTprOfClaim, countSteps, planDPSGD } from "../src/lib/browser-accountant/dp-sgd";
import type { DPSGDRequest } from "../src/lib/openapi";

const RUN: DPSGDRequest = { examples: 60_000, batch_size: 256, epochs: 60, steps: null, delta: 1e-5, noise_multiplier: 1.1, epsilon: null, clip_norm: 1, sampler: "poisson", max_batch_size: null, relation: null };

test("steps are epochs times size over batch, rounded up, without a rounding in between", () => {
  const cases = [
    [60_000, 256, 60, 14_063],
    [10, 1, 0.3, 3], // 0.3 is three tenths, not the double below it
    [1000, 7, 0.1, 15],
    [1, 1, 1e6, 1_000_000],
    [9_007_199_254_740_991, 1, 1, 9_007_199_254_740_991],
  ] as const;
  for (const [examples, batch_size, epochs, steps] of cases) expect(countSteps({ examples, batch_size, epochs, steps: null })).toBe(steps);
  expect(countSteps({ examples: 5, batch_size: 1, epochs: null, steps: 7 })).toBe(7);
});

test("a bound is never below the library's certified lower bound, and close to its upper one", () => {
  const cases = [
    [{}, 2.381689, 2.42], // epsilog plan dp-sgd -N 60000 -B 256 -E 60 -z 1.1 --delta 1e-5
    [{ relation: "zero-out" }, 2.381689, 2.42],
    [{ sampler: "shuffled" }, 54.0458, 54.0459],
    [{ sampler: "shuffled", relation: "replace-one" }, 158.3657, 158.3658],
    [{ sampler: "shuffled", epochs: null, steps: 470 }, 7.473905, 7.473906], // 470 steps of 234 an epoch begin three epochs
  ] as const;
  for (const [more, low, high] of cases) {
    const { upper } = planDPSGD({ ...RUN, ...more }).epsilon;
    expect(upper).toBeGreaterThanOrEqual(low);
    expect(upper).toBeLessThan(high);
  }
});

test("the other loader stands beside each", () => {
  expect(planDPSGD(RUN).other_epsilon.upper).toBe(planDPSGD({ ...RUN, sampler: "shuffled" }).epsilon.upper);
  expect(planDPSGD({ ...RUN, sampler: "shuffled" }).other_epsilon.upper).toBe(planDPSGD(RUN).epsilon.upper);
});

test("the noise that is found meets the target, and hardly less does not", () => {
  for (const sampler of ["poisson", "shuffled"] as const) {
    const found = planDPSGD({ ...RUN, sampler, noise_multiplier: null, epsilon: 3 });
    expect(found.epsilon.upper).toBeLessThanOrEqual(3);
    expect(planDPSGD({ ...RUN, sampler, noise_multiplier: found.noise_multiplier * 0.998 }).epsilon.upper).toBeGreaterThan(3);
  }
});

test("an attack's rate is bounded from the profile, at most as the claim alone says", () => {
  const { tpr, epsilon } = planDPSGD(RUN);
  expect(tpr).toBeGreaterThan(0.036);
  expect(tpr).toBeLessThanOrEqual(boundTprOfClaim(epsilon.upper, RUN.delta));
  expect(planDPSGD({ ...RUN, noise_multiplier: 0 }).tpr).toBe(1);
});

test("a loader without a bound here needs the server", () => {
  for (const more of [{ sampler: "truncated-poisson", max_batch_size: 300 }, { relation: "replace-one" }] as const) expect(() => planDPSGD({ ...RUN, ...more })).toThrow("The browser supports");
});

// The twin against what Python wrote down: equal where it should be exact, never below where it is a bound.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readField } from "../src/lib/form";
import { readFederatedRequest, readQueriesRequest } from "../src/lib/openapi";
import type { RawValues } from "../src/lib/parse-values";
import { classicGaussian, federatedClosedForm } from "../src/lib/browser-accountant/closed";
import { browserEngine, queries } from "../src/lib/browser-accountant/engine";
import { gaussianDelta, gaussianEpsilon, gaussianNoise } from "../src/lib/browser-accountant/gaussian";
import { round } from "../src/lib/browser-accountant/cells";
import { moment } from "../src/lib/browser-accountant/inversion";
import { deltasOf, epsilonOf } from "../src/lib/browser-accountant/sampled";
import { FEDERATED } from "../src/pages/Federated";

interface Case {
  kind: string;
  want: Record<string, number | string | unknown>;
  [name: string]: unknown;
}

const file = JSON.parse(readFileSync(new URL("../../tests/vectors/browser_accountant.json", import.meta.url), "utf8")) as { cases: Case[] };
const of = (kind: string): Case[] => file.cases.filter((each) => each.kind === kind);
const number = (value: unknown): number => (value === "inf" ? Infinity : (value as number));

/** At least the truth (its certified lower bound), and no looser than Python's bound by more than `slack`. */
function bounds(got: number, want: Case["want"], slack: number): void {
  expect(got).not.toBeNaN();
  if (want.lower !== undefined) expect(got).toBeGreaterThanOrEqual(number(want.lower));
  expect(got).toBeGreaterThanOrEqual(number(want.upper) * (1 - 1e-9));
  expect(got).toBeLessThanOrEqual(number(want.upper) * (1 + slack) + 1e-300);
}

test("there are enough cases, of every kind", () => {
  expect(file.cases.length).toBeGreaterThanOrEqual(2000);
  const kinds = ["gaussian_delta", "gaussian_epsilon", "gaussian_noise", "rdp", "sampled_epsilon", "sampled_delta", "fl_formula", "classic", "queries"];
  for (const kind of kinds) expect(of(kind).length, kind).toBeGreaterThan(50);
});

describe("exact Gaussian", () => {
  test.each(of("gaussian_delta"))("delta at mu $mu, epsilon $epsilon", ({ mu, epsilon, want }) => {
    bounds(gaussianDelta(mu as number, epsilon as number), want, 1e-6);
  });
  test.each(of("gaussian_epsilon"))("epsilon at mu $mu, delta $delta", ({ mu, delta, want }) => {
    bounds(gaussianEpsilon(mu as number, delta as number), want, 1e-6);
  });
  test.each(of("gaussian_noise"))("noise for epsilon $epsilon, delta $delta", ({ epsilon, delta, want }) => {
    bounds(gaussianNoise(epsilon as number, delta as number), want, 1e-6);
  });
});

describe("sampled Gaussian", () => {
  const schedule = ({ q, sigma, rounds }: Case) => ({ q: q as number, sigma: sigma as number, rounds: rounds as number });

  test("no epsilon is below the certified truth, and hardly one far above it", () => {
    const ratios: number[] = [];
    for (const each of of("sampled_epsilon")) {
      const got = epsilonOf(schedule(each), each.delta as number);
      const said = JSON.stringify(each);
      expect(got, said).not.toBeNaN();
      expect(got, said).toBeGreaterThanOrEqual(number(each.want.lower));
      const [lower, upper] = [number(each.want.lower), number(each.want.upper)];
      if (lower > 1e-3 && upper < 1.02 * lower) ratios.push(got / upper);
    }
    ratios.sort((a, b) => a - b);
    expect(ratios.length).toBeGreaterThan(600);
    expect(ratios[Math.floor(0.5 * ratios.length)]).toBeLessThan(1.02);
    expect(ratios[Math.floor(0.99 * ratios.length)]).toBeLessThan(1.5);
    expect(ratios.at(-1)).toBeLessThan(4);
  });
  test("with hardly any noise the bound follows Python's, in delta as in epsilon", () => {
    const ratios: number[] = [];
    for (const each of of("sampled_epsilon").filter((each) => (each.sigma as number) < 0.03)) {
      const [got, delta, said] = [epsilonOf(schedule(each), each.delta as number), each.delta as number, JSON.stringify(each)];
      expect(got, said).toBeGreaterThanOrEqual(number(each.want.lower));
      expect(deltasOf(schedule(each), [got], delta)[0], said).toBeLessThanOrEqual(delta * (1 + 1e-9));
      if (number(each.want.upper) > 0) ratios.push(got / number(each.want.upper));
    }
    ratios.sort((a, b) => a - b);
    expect(ratios.length).toBeGreaterThan(40);
    expect(ratios[Math.floor(0.5 * ratios.length)]).toBeLessThan(1.1);
    expect(ratios.at(-1)).toBeLessThan(1.5);
  });
  test("no delta is below the certified truth, and hardly one far above it", () => {
    const ratios: number[] = [];
    for (const each of of("sampled_delta")) {
      const got = deltasOf(schedule(each), [each.epsilon as number])[0]!;
      expect(got, JSON.stringify(each)).toBeGreaterThanOrEqual(number(each.want.lower));
      if (number(each.want.lower) > 1e-12) ratios.push(got / number(each.want.upper));
    }
    ratios.sort((a, b) => a - b);
    expect(ratios.length).toBeGreaterThan(30);
    expect(ratios[Math.floor(0.5 * ratios.length)]).toBeLessThan(1.1);
  });
  test.each(of("rdp"))("the moment of order $order at q $q, sigma $sigma is not below the true one", ({ order, q, sigma, want }) => {
    if (q === 1) return;
    const { remove } = round(sigma as number, q as number, 38);
    const theta = (order as number) - 1;
    if ((order as number) / (sigma as number) > 25) return; // beyond the cells
    const got = moment(remove, theta);
    expect((got.log + got.off + got.doubt) / theta).toBeGreaterThanOrEqual(number(want.upper) * (1 - 2e-5) - 1e-12 / theta);
    expect(got.log / theta).toBeLessThanOrEqual(number(want.upper) * 1.06 + 1e-11 / theta);
  });
  test("the masses of a round are all that there is, and their errors are small", () => {
    for (const sigma of [0.05, 0.2, 1, 30, 1e3])
      for (const q of [1e-8, 0.01, 0.999])
        for (const side of ["remove", "add"] as const) {
          const law = round(sigma, q, 9)[side];
          const masses = [...law.logs].map(Math.exp);
          expect(Math.abs(masses.reduce((a, b) => a + b) - 1)).toBeLessThan(1e-11);
          masses.forEach((mass, i) => expect(mass * law.massErrors[i]!).toBeLessThan(1e-11));
        }
  });
  test("one round, inverted, is above its closed form, and near it", () => {
    let state = 7; // a small generator of numbers in (0, 1), always the same ones
    const next = (): number => (state = (state * 48271) % 2147483647) / 2147483647;
    const log = (low: number, high: number): number => low * (high / low) ** next();
    const ratios: number[] = [];
    for (let i = 0; i < 150; i++) {
      const [sigma, q, rounds] = [log(0.2, 30), log(1e-6, 0.99), 1];
      const epsilon = log(1e-3, 20);
      const inner = Math.log1p(Math.expm1(epsilon) / q); // delta of one sampled round with the unit removed, exactly: Balle et al. 2018
      const exact = q * gaussianDelta(1 / sigma, inner);
      const got = deltasOf({ sigma, q, rounds }, [epsilon], 1e-300)[0]!;
      if (exact < 1e-290) continue;
      expect(got, JSON.stringify({ sigma, q, epsilon })).toBeGreaterThanOrEqual(exact * (1 - 1e-9));
      const back = epsilonOf({ sigma, q, rounds }, exact * (1 + 1e-9));
      if (epsilon > 0.01) ratios.push(back / epsilon);
      expect(back).toBeGreaterThanOrEqual(epsilon * (1 - 1e-6) - 1e-9);
    }
    ratios.sort((a, b) => a - b);
    expect(ratios.length).toBeGreaterThan(40);
    expect(ratios[Math.floor(0.9 * ratios.length)]).toBeLessThan(1.05);
  });
  test("less noise, more rounds, more often and a smaller delta never cost less", () => {
    const base = { sigma: 1.1, q: 0.01, rounds: 500 };
    const prices = (of: (i: number) => [{ sigma: number; q: number; rounds: number }, number]) => Array.from({ length: 12 }, (_, i) => epsilonOf(...of(i)));
    for (const rising of [
      prices((i) => [{ ...base, sigma: 3 * 0.8 ** i }, 1e-6]),
      prices((i) => [{ ...base, rounds: 2 ** (i + 2) }, 1e-6]),
      prices((i) => [{ ...base, q: 0.0005 * 1.9 ** i }, 1e-6]),
      prices((i) => [base, 10 ** (-3 - 2 * i)]),
    ])
      rising.forEach((price, i) => expect(price).toBeGreaterThan(rising[i - 1] ?? 0));
  });
  test("edges", () => {
    expect(epsilonOf({ sigma: 1, q: 0, rounds: 10 }, 1e-6)).toBe(0);
    expect(epsilonOf({ sigma: 0, q: 0.1, rounds: 10 }, 1e-6)).toBe(Infinity);
    expect(epsilonOf({ sigma: 2, q: 1, rounds: 9 }, 1e-6)).toBeCloseTo(gaussianEpsilon(1.5, 1e-6), 9);
    expect(epsilonOf({ sigma: 1e-3, q: 0.5, rounds: 2 }, 1e-6)).toBeGreaterThan(9e5); // as if all took part
    expect(deltasOf({ sigma: 1, q: 0.1, rounds: 10 }, [0, 1e3]).every((delta) => delta > 0 && delta < 0.2)).toBe(true);
  });
});

describe("closed forms", () => {
  test.each(of("fl_formula"))("federated at q $q, sigma $sigma", ({ q, sigma, rounds, delta, want }) => {
    const got = federatedClosedForm(q as number, sigma as number, rounds as number, delta as number);
    for (const [mine, theirs] of [[got.root_term, number(want.root)], [got.linear_term, number(want.linear)]] as const)
      expect(mine === theirs || Math.abs(mine / theirs - 1) < 1e-12).toBe(true);
  });
  test.each(of("classic"))("classic Gaussian at $epsilon", ({ epsilon, delta, want }) => {
    expect(classicGaussian(epsilon as number, delta as number) / number(want.value)).toBeCloseTo(1, 12);
  });
});

describe("query plans", () => {
  test.each(of("queries").map((each, i) => [i, each] as const))("plan %i", (_, { ask, want }) => {
    const got = queries(readQueriesRequest(ask as RawValues));
    const theirs = want as typeof got;
    expect(got.compatible).toBe(theirs.compatible);
    expect(got.queries_left).toBe(theirs.queries_left);
    expect(got.consumed.split).toBeCloseTo(theirs.consumed.split, 9);
    for (const way of ["classic", "exact", "optimal"] as const) bounds(got.consumed[way].upper, { upper: theirs.consumed[way].upper }, 1e-6);
    expect(Math.abs(got.remaining - theirs.remaining)).toBeLessThanOrEqual(1e-6 * got.epsilon);
    theirs.shares.forEach((share, i) => {
      for (const way of ["classic", "exact", "optimal"] as const) {
        const mine = got.shares[i]![way];
        expect(mine.scale / share[way].scale).toBeCloseTo(1, 6);
        expect(mine.scale).toBeGreaterThanOrEqual(share[way].scale * (1 - 1e-9));
        expect(mine.error_95 / share[way].error_95).toBeCloseTo(1, 6);
      }
    });
  });
});

test("the formula never stands without a bound", async () => {
  const values = Object.fromEntries(FEDERATED.map((spec) => [spec.name, readField(spec, spec.initial).value]));
  const ask = readFederatedRequest(values);
  expect(ask).toEqual(readFederatedRequest({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 1.2 }));
  const answer = await browserEngine.federated(ask, new AbortController().signal);
  expect(answer.closed_form.total).toBeCloseTo(0.6334, 4);
  expect(answer.epsilon.upper).toBeGreaterThan(0.7226); // the certified lower bound
  expect(answer.epsilon.upper).toBeLessThan(0.735);
  await expect(browserEngine.federated({ ...ask, sampling: "fixed-size" }, new AbortController().signal)).rejects.toThrow("Poisson");
  await expect(browserEngine.federated({ ...ask, relation: "replace-one" }, new AbortController().signal)).rejects.toThrow();
});

test("inverse questions keep to the goal", async () => {
  const ask = readFederatedRequest({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 1.2, delta: 1e-6, delta_cap: null });
  const { signal } = new AbortController();
  const rounds = await browserEngine.roundsFor(ask, 2, signal);
  expect((await browserEngine.federated({ ...ask, rounds }, signal)).epsilon.upper).toBeLessThanOrEqual(2);
  expect((await browserEngine.federated({ ...ask, rounds: rounds + 1 }, signal)).epsilon.upper).toBeGreaterThan(2);
  const noise = await browserEngine.noiseFor(ask, 2, signal);
  expect((await browserEngine.federated({ ...ask, noise_multiplier: noise }, signal)).epsilon.upper).toBeLessThanOrEqual(2);
  expect((await browserEngine.federated({ ...ask, noise_multiplier: noise * 0.998 }, signal)).epsilon.upper).toBeGreaterThan(2);
});

test("what is stated and not priced in the browser is said beside the number", async () => {
  const plain = readFederatedRequest({ population: 1000, cohort_size: 10, rounds: 5, noise_multiplier: 1, delta: 1e-6 } as RawValues);
  const says = async (more: object): Promise<string> => (await browserEngine.federated({ ...plain, ...more }, new AbortController().signal)).limits.map((each) => each.message).join(" ");
  expect(await says({})).not.toContain("NOT");
  for (const more of [{ group_size: 3 }, { trials: "fixed:4" }, { without_replacement: false }, { adaptive_clip: true }, { late_replies: "replace" }]) expect(await says(more)).toContain("does NOT cover");
});

// The twin against what Python wrote down: equal where it should be exact, never below where it is a bound.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseField } from "../src/lib/form";
import { readFederatedAsk, readQueriesAsk } from "../src/lib/openapi";
import type { Given } from "../src/lib/read";
import { classicGaussian, flFormula } from "../src/lib/twin/closed";
import { queries, twin } from "../src/lib/twin/engine";
import { gaussianDelta, gaussianEpsilon, gaussianNoise } from "../src/lib/twin/gaussian";
import { ORDERS, perRound, renyiEpsilon, sampledGaussian } from "../src/lib/twin/renyi";
import { FEDERATED } from "../src/pages/Federated";

interface Case {
  kind: string;
  want: Record<string, number | string | unknown>;
  [name: string]: unknown;
}

const file = JSON.parse(readFileSync(new URL("../../tests/vectors/twin.json", import.meta.url), "utf8")) as { cases: Case[] };
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
  expect(file.cases.length).toBeGreaterThanOrEqual(1000);
  const kinds = ["gaussian_delta", "gaussian_epsilon", "gaussian_noise", "rdp", "renyi_epsilon", "fl_formula", "classic", "queries"];
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

describe("Renyi", () => {
  test.each(of("rdp"))("order $order at q $q, sigma $sigma", ({ order, q, sigma, want }) => {
    const got = sampledGaussian(order as number, sigma as number, q as number);
    expect(Math.abs(got - number(want.upper))).toBeLessThanOrEqual(1e-11 + 1e-9 * number(want.upper));
  });
  test.each(of("renyi_epsilon"))("epsilon of $rounds rounds at q $q, sigma $sigma", ({ rounds, q, sigma, delta, want }) => {
    const got = renyiEpsilon(perRound(sigma as number, q as number), rounds as number, delta as number);
    expect(got).toBeGreaterThanOrEqual(number(want.lower));
    expect(Math.abs(got - number(want.upper))).toBeLessThanOrEqual(1e-7 + 1e-6 * number(want.upper));
  });
  test("orders are whole and rise", () => {
    ORDERS.forEach((order, i) => {
      expect(Number.isInteger(order) && order > (ORDERS[i - 1] ?? 1)).toBe(true);
    });
  });
});

describe("closed forms", () => {
  test.each(of("fl_formula"))("federated at q $q, sigma $sigma", ({ q, sigma, rounds, delta, want }) => {
    const got = flFormula(q as number, sigma as number, rounds as number, delta as number);
    for (const [mine, theirs] of [[got.root_term, number(want.root)], [got.linear_term, number(want.linear)]] as const)
      expect(mine === theirs || Math.abs(mine / theirs - 1) < 1e-12).toBe(true);
  });
  test.each(of("classic"))("classic Gaussian at $epsilon", ({ epsilon, delta, want }) => {
    expect(classicGaussian(epsilon as number, delta as number) / number(want.value)).toBeCloseTo(1, 12);
  });
});

describe("query plans", () => {
  test.each(of("queries").map((each, i) => [i, each] as const))("plan %i", (_, { ask, want }) => {
    const got = queries(readQueriesAsk(ask as Given));
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
  const form = FEDERATED.map((spec) => [spec.name, parseField(spec, spec.initial)] as const);
  const values = Object.fromEntries(form.map(([name, parsed]) => [name, "value" in parsed ? parsed.value : undefined]));
  const ask = readFederatedAsk(values);
  expect(ask).toEqual(readFederatedAsk({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 1.2 }));
  const answer = await twin.federated(ask, new AbortController().signal);
  expect(answer.formula.total).toBeCloseTo(0.6334, 4);
  expect(answer.epsilon.upper).toBeGreaterThan(0.7226); // the certified lower bound
  await expect(twin.federated({ ...ask, sampling: "fixed-size" }, new AbortController().signal)).rejects.toThrow("Poisson");
  await expect(twin.federated({ ...ask, relation: "replace-one" }, new AbortController().signal)).rejects.toThrow();
});

test("inverse questions keep to the goal", async () => {
  const ask = readFederatedAsk({ population: 50_000, cohort_size: 500, rounds: 200, noise_multiplier: 1.2, delta: 1e-6, delta_cap: null });
  const { signal } = new AbortController();
  const rounds = await twin.roundsFor(ask, 2, signal);
  expect((await twin.federated({ ...ask, rounds }, signal)).epsilon.upper).toBeLessThanOrEqual(2);
  expect((await twin.federated({ ...ask, rounds: rounds + 1 }, signal)).epsilon.upper).toBeGreaterThan(2);
  const noise = await twin.noiseFor(ask, 2, signal);
  expect((await twin.federated({ ...ask, noise_multiplier: noise }, signal)).epsilon.upper).toBeLessThanOrEqual(2);
  expect((await twin.federated({ ...ask, noise_multiplier: noise * 0.998 }, signal)).epsilon.upper).toBeGreaterThan(2);
});

import { sizeOfEqualNoise } from "../src/lib/browser-accountant/closed";
// Quantities are rounded once: bounds up, what is left down.

import { describe, expect, test } from "vitest";
import { releaseOf } from "../src/lib/browser-accountant/releases";
import { sentence } from "../src/lib/messages";
import { again, bound, boundAttack, countOf, countPicked, exact, explainPicked, left, pluralize } from "../src/lib/quantities";

const VALUES = Array.from({ length: 200 }, (_, i) => 1.07 ** (i - 60) * Math.PI);
const read = (text: string): number => Number(text.replace(/ × 10/, "e").replace(/[\s\u202f,]/g, "").replace(/e([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/, (_, raised: string) => `e${[...raised].map((d) => ("⁻" === d ? "-" : "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(d))).join("")}`));

describe("three digits", () => {
  test.each(VALUES)("%d: a bound is never too low, what is left never too high", (value) => {
    expect(read(bound(value))).toBeGreaterThanOrEqual(value);
    expect(read(bound(value))).toBeLessThanOrEqual(value * 1.01);
    expect(read(left(value))).toBeLessThanOrEqual(value);
    expect(read(exact(value))).toBe(value);
  });
  test("a figure that the server rounded to four digits ends as the number itself does", () => {
    for (const value of VALUES.filter((one) => one < 1e4 && one > 0.01)) {
      const four = (Math.ceil(Number((value * 10 ** (3 - Math.floor(Math.log10(value)))).toPrecision(12))) / 10 ** (3 - Math.floor(Math.log10(value)))).toString();
      expect(again(four)).toBe(bound(value));
    }
    expect(again("no proven bound")).toBe("no proven bound");
  });
});

describe("people", () => {
  test.each([[0, "10\u00a0of\u00a01,000"], [0.0101, "11\u00a0of\u00a01,000"], [0.0149605, "15\u00a0of\u00a01,000"], [0.98951, "nearly all"], [1, "nearly all"]])("%d is %s", (tpr, says) => expect(countPicked(countOf(tpr))).toBe(says));
  test("the words say where guessing stands, and where nothing is left", () => {
    expect(sentence(explainPicked(11, "people"))).toContain("hardly better than guessing");
    expect(sentence(explainPicked(500, "clients"))).toBe("clients could be picked out at most; guessing finds 10.");
    expect(sentence(explainPicked(1000, "people"))).toContain("could be picked out; guessing finds 10 of 1,000");
  });
  test.each([["person", "people"], ["client", "clients"], ["user-day", "user-days"], ["family", "families"], ["box", "boxes"], ["Dr. X", "units (Dr. X)"]])("several of %s are %s", (unit, several) => expect(pluralize(unit)).toBe(several));
  test("without a curve, epsilon and delta alone bound the attack", () => {
    expect(boundAttack({ epsilon: 4, delta: 1e-5 }, null)).toBeCloseTo(0.546, 3);
    expect(boundAttack({ epsilon: Infinity, delta: 1e-5 }, null)).toBe(1);
    const release = releaseOf({ mechanism: "gdp", parameter: 0.5, second: null, sampling_probability: 1, count: 1 }, "add-or-remove-one");
    expect(boundAttack({ epsilon: 4, delta: 1e-5 }, release)).toBeLessThan(0.04);
  });
});

test.each([[500, 1.2], [64, 0.7], [10_000, 8]])("noise on the mean of %d clients at sigma %d is as long as a clipped update at that many weights", (cohort, noise) => {
  const size = sizeOfEqualNoise(cohort, noise);
  const perWeight = noise / cohort; // standard deviation, for a clipping norm of 1
  expect(Math.sqrt(size) * perWeight).toBeCloseTo(1, 12);
  expect(Math.sqrt(0.7 * size) * perWeight).toBeLessThan(0.9);
});

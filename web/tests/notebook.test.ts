// Sliders spread evenly over powers of ten, and show the very value that they stand for.

import { expect, test } from "vitest";
import { positionOf, valueAt } from "../src/embed/notebook";

test("a value's place gives the value back, to a step", () => {
  for (const [least, most, whole] of [[0.3, 30, false], [1, 100_000, true], [1, 50_000, true]] as const) {
    expect([valueAt(0, least, most, whole), valueAt(400, least, most, whole)]).toEqual([least, most]);
    for (let place = 0; place <= 400; place++) {
      const value = valueAt(place, least, most, whole);
      expect(valueAt(positionOf(value, least, most), least, most, whole)).toBe(value);
      expect(value).toBeGreaterThanOrEqual(valueAt(Math.max(0, place - 1), least, most, whole));
    }
  }
  expect(positionOf(7, 1, 1)).toBe(0); // a population of one leaves no choice
  expect(positionOf(9e9, 1, 100)).toBe(400);
});

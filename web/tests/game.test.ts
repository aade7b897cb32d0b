import { expect, test } from "vitest";
import { active, BREACHES, BUDGET, judge, LEAST_EPSILON, MOST_EPSILON, noiseOf, release, SECONDS, start, steer, tick } from "../src/lib/game";

function dice(seed: number): () => number {
  let state = seed;
  return () => ((state = (state * 1103515245 + 12345) % 2147483648) / 2147483648);
}

/** The epsilon in the middle of the active card's range, found by bisection. */
function right(shift: ReturnType<typeof start>): number {
  const card = active(shift)!;
  let [low, high] = [LEAST_EPSILON, MOST_EPSILON];
  for (let i = 0; i < 60; i++) {
    const middle = Math.sqrt(low * high);
    if (noiseOf(card, middle) > Math.sqrt(card.low * card.high)) low = middle;
    else high = middle;
  }
  return high;
}

test("noise is the calculators' own", () => {
  expect(noiseOf({ mechanism: "laplace", sensitivity: 10 }, 0.5)).toBe(20);
  expect(noiseOf({ mechanism: "gaussian", sensitivity: 1 }, 1)).toBeCloseTo(4.2247, 4); // exact, delta 1e-6
});

test("the right noise scores, and a streak scores more", () => {
  const random = dice(7);
  let shift = start(true, random);
  const gains: number[] = [];
  for (let i = 0; i < 3; i++) {
    const before = shift.score;
    shift = release(steer(shift, right(shift)), random);
    gains.push(shift.score - before);
  }
  expect(gains).toEqual([100, 120, 140]);
  expect(shift.breaches).toBe(0);
});

test("too little noise is a breach, and three end the shift", () => {
  const random = dice(3);
  let shift = steer(start(true, random), MOST_EPSILON);
  for (let i = 0; i < BREACHES; i++) {
    expect(judge(active(shift)!, shift.epsilon)).toBe("breach");
    shift = release(shift, random);
  }
  expect(shift.over).toBe("Three breaches.");
  expect(release(shift, random)).toBe(shift);
});

test("too much noise is safe, scores less and costs budget", () => {
  const random = dice(5);
  const shift = release(steer(start(true, random), LEAST_EPSILON), random);
  expect([shift.score, shift.streak, shift.breaches]).toEqual([25, 0, 0]);
  expect(shift.budget).toBeCloseTo(BUDGET - LEAST_EPSILON, 12);
});

test("a release that the budget cannot bear is refused", () => {
  const random = dice(5);
  const poor = { ...start(true, random), budget: 0.1 };
  const after = release(steer(poor, 0.5), random);
  expect(after.released).toBe(0);
  expect(after.said).toContain("refused");
});

test("an empty budget ends the shift", () => {
  const random = dice(5);
  const poor = { ...start(true, random), budget: LEAST_EPSILON };
  expect(release(steer(poor, LEAST_EPSILON), random).over).toBe("The budget is spent.");
});

test("the clock ends the shift, cards fall and are missed", () => {
  const random = dice(11);
  let shift = start(false, random);
  for (let t = 0; t < SECONDS + 1 && shift.over === null; t += 0.1) shift = tick(shift, 0.1, random);
  expect(shift.over).toBe("The shift is over.");
  expect(shift.missed).toBeGreaterThan(5);
  expect(shift.cards.length).toBeLessThanOrEqual(4);
});

test("text mode has no clock", () => {
  const shift = start(true, dice(1));
  expect(tick(shift, 1000, dice(1))).toBe(shift);
});

import { expect, test } from "vitest";
import type { Shift } from "../src/lib/game";
import { active, BREACHES, BUDGET, CARDS, judge, LEAST_EPSILON, MOST_EPSILON, noiseOf, NOISE_COSTS, pick, release, SECONDS, start, steer, tick } from "../src/lib/game";

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

test("too much noise is safe, costs points and budget", () => {
  const random = dice(5);
  const shift = release(steer({ ...start(true, random), score: 120, streak: 1 }, LEAST_EPSILON), random);
  expect([shift.score, shift.streak, shift.breaches]).toEqual([120 - NOISE_COSTS, 0, 0]);
  expect(release({ ...shift, score: 10 }, random).score).toBe(0); // never below nothing
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

test("any card can be picked, and the lowest is next when it is gone", () => {
  const random = dice(4);
  let shift = start(false, random);
  while (shift.cards.length < 3) shift = tick(shift, 0.1, random);
  const last = shift.cards.at(-1)!;
  expect(active(shift)).not.toBe(last);
  shift = pick(shift, last.id);
  expect(active(shift)).toBe(last);
  expect(pick(shift, 999)).toBe(shift);
  const after = release(steer(shift, right(shift)), random);
  expect(after.cards.map((card) => card.id)).not.toContain(last.id);
  expect(active(after)).toBe(after.cards.reduce((low, card) => (card.height > low.height ? card : low)));
  expect(new Set(shift.cards.map((card) => card.slot)).size).toBe(3);
});

/** A whole shift at 30 frames a second; `act` presses keys in each frame. */
function play(seed: number, act: (shift: Shift, frame: number, random: () => number) => Shift): Shift {
  const random = dice(seed);
  let shift = start(false, random);
  for (let frame = 0; shift.over === null && frame < 30 * SECONDS + 30; frame++) {
    shift = act(shift, frame, random);
    shift = tick(shift, 1 / 30, random);
  }
  return shift;
}

const SEEDS = Array.from({ length: 12 }, (_, i) => 101 + 7 * i);
const average = (act: Parameters<typeof play>[1]): number => SEEDS.reduce((sum, seed) => sum + play(seed, act).score, 0) / SEEDS.length;
/** Steers towards the card's range, one press of a key a frame, and releases when the sign shows a circle. */
const careful: Parameters<typeof play>[1] = (shift, _, random) => {
  const card = active(shift);
  if (card === null) return shift;
  const verdict = judge(card, shift.epsilon);
  if (verdict === "good") return release(shift, random);
  return steer(shift, shift.epsilon * (verdict === "noisy" ? 1.06 : 1 / 1.06));
};

test("whoever mashes keys scores near nothing", () => {
  const played = average(careful);
  expect(played).toBeGreaterThan(1500);
  const mashers: Record<string, Parameters<typeof play>[1]> = {
    "left and space": (shift, _, random) => release(steer(shift, shift.epsilon / 1.06), random),
    "right and space": (shift, _, random) => release(steer(shift, shift.epsilon * 1.06), random),
    "space alone": (shift, _, random) => release(shift, random),
    "left and right in turn, slowly": (shift, frame, random) => release(steer(shift, shift.epsilon * (frame % 120 < 60 ? 1.06 : 1 / 1.06)), random),
    "anywhere": (shift, frame, random) => {
      const moved = steer(shift, LEAST_EPSILON * (MOST_EPSILON / LEAST_EPSILON) ** random());
      return frame % 6 === 0 ? release(moved, random) : moved;
    },
  };
  for (const [name, masher] of Object.entries(mashers)) expect(average(masher), name).toBeLessThan(0.1 * played);
});

test("cards are limited, however fast they are answered", () => {
  for (const seed of SEEDS) {
    const shift = play(seed, careful);
    expect(shift.made).toBeLessThanOrEqual(CARDS);
    expect(shift.released + shift.missed + shift.cards.length).toBe(shift.made);
    expect(shift.score).toBeLessThanOrEqual(CARDS * 300);
  }
});

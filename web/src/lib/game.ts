// Release control, as a pure state machine: time and chance come from outside, numbers from the tested twin.

import { gaussianNoise } from "./twin/gaussian";

export const SECONDS = 75;
export const BUDGET = 8; // epsilon for the whole shift
export const BREACHES = 3; // end the shift
export const GAME_DELTA = 1e-6;
export const LEAST_EPSILON = 0.02;
export const MOST_EPSILON = 2;
export const CARDS = 20; // in a shift; there is no more to be had by answering faster
export const STEADY_CARDS = 15; // in text mode, which has no clock
export const NOISE_COSTS = 50; // points for an answer too noisy to be of use
const MOST_AT_ONCE = 4;
const SOON = 1.2; // seconds until the next card when the field is empty
const WIDTH = 1.3; // the range is a factor of this on either side

export interface Card {
  id: number;
  slot: number; // 1 to 4: the key that picks it, free again when the card is gone
  mechanism: "laplace" | "gaussian";
  sensitivity: number;
  low: number; // least noise that is safe
  high: number; // most noise that is still useful
  lane: number; // 0 to 1
  height: number; // 0 at the top, 1 at the floor
  speed: number; // heights a second
}

export type Judgement = "breach" | "good" | "noisy";

export interface Shift {
  cards: Card[];
  epsilon: number; // what the next release would spend
  budget: number;
  clock: number; // seconds left; Infinity in text mode
  score: number;
  streak: number;
  breaches: number;
  released: number;
  missed: number;
  chosen: number | null; // the id of the card that was picked; the lowest if none was
  said: string;
  over: string | null; // why the shift ended
  nextCard: number; // seconds until another falls
  made: number;
}

/** Noise scale of one release: b for Laplace, the exact standard deviation for Gaussian. */
export function noiseOf(card: Pick<Card, "mechanism" | "sensitivity">, epsilon: number): number {
  return card.sensitivity * (card.mechanism === "laplace" ? 1 / epsilon : gaussianNoise(epsilon, GAME_DELTA));
}

export function judge(card: Card, epsilon: number): Judgement {
  const noise = noiseOf(card, epsilon);
  return noise < card.low ? "breach" : noise > card.high ? "noisy" : "good";
}

export function start(text: boolean, random: () => number): Shift {
  const shift: Shift = {
    cards: [],
    epsilon: 0.2,
    budget: BUDGET,
    clock: text ? Infinity : SECONDS,
    score: 0,
    streak: 0,
    breaches: 0,
    released: 0,
    missed: 0,
    chosen: null,
    said: "The shift begins.",
    over: null,
    nextCard: 0,
    made: 0,
  };
  return deal(shift, random);
}

function deal(shift: Shift, random: () => number): Shift {
  const mechanism = random() < 0.5 ? "laplace" : "gaussian";
  const sensitivity = [1, 2, 5, 10, 50, 100][Math.floor(random() * 6)]!;
  const target = 0.06 * 10 ** (1.1 * random()); // the epsilon in the middle of the range
  const middle = noiseOf({ mechanism, sensitivity }, target);
  const late = Number.isFinite(shift.clock) ? 1 - shift.clock / SECONDS : 0;
  const card: Card = {
    id: shift.made,
    slot: [1, 2, 3, 4].find((slot) => shift.cards.every((each) => each.slot !== slot))!,
    mechanism,
    sensitivity,
    low: middle / WIDTH,
    high: middle * WIDTH,
    lane: random(),
    height: 0,
    speed: Number.isFinite(shift.clock) ? 0.075 + 0.05 * late : 0,
  };
  return { ...shift, cards: [...shift.cards, card], made: shift.made + 1, nextCard: 4.2 - 1.6 * late };
}

/** The card that a release would answer: the one that was picked, or the lowest. */
export function active(shift: Shift): Card | null {
  const picked = shift.cards.find((card) => card.id === shift.chosen);
  return picked ?? shift.cards.reduce<Card | null>((low, card) => (low === null || card.height > low.height ? card : low), null);
}

export function pick(shift: Shift, id: number): Shift {
  return shift.cards.some((card) => card.id === id) ? { ...shift, chosen: id } : shift;
}

export function steer(shift: Shift, epsilon: number): Shift {
  return { ...shift, epsilon: Math.min(MOST_EPSILON, Math.max(LEAST_EPSILON, epsilon)) };
}

export function release(shift: Shift, random: () => number): Shift {
  const card = active(shift);
  if (card === null || shift.over !== null) return shift;
  if (shift.epsilon > shift.budget) return { ...shift, said: "The budget cannot bear that: refused before the data is touched." };
  const verdict = judge(card, shift.epsilon);
  const budget = shift.budget - shift.epsilon;
  const streak = verdict === "good" ? shift.streak + 1 : 0;
  const points = { breach: 0, good: 100 + 20 * Math.min(10, shift.streak), noisy: -NOISE_COSTS }[verdict];
  const said = {
    breach: "Breach: too little noise.",
    good: `In range: ${points} points.`,
    noisy: `Safe, but too noisy to be of use: ${NOISE_COSTS} points lost.`,
  }[verdict];
  let next: Shift = {
    ...shift,
    cards: shift.cards.filter((each) => each !== card),
    budget,
    streak,
    chosen: null,
    said,
    score: Math.max(0, shift.score + points),
    breaches: shift.breaches + (verdict === "breach" ? 1 : 0),
    released: shift.released + 1,
  };
  if (next.breaches >= BREACHES) next = { ...next, over: "Three breaches." };
  else if (next.budget < LEAST_EPSILON) next = { ...next, over: "The budget is spent." };
  else if (!Number.isFinite(next.clock)) {
    if (next.made >= STEADY_CARDS) next = { ...next, over: "Every card is answered." };
    else next = deal(next, random);
  } else if (next.cards.length === 0 && next.made >= CARDS) next = { ...next, over: "Every card is answered." };
  return next;
}

/** Lets `seconds` pass: cards fall, the clock runs, new cards come. */
export function tick(shift: Shift, seconds: number, random: () => number): Shift {
  if (shift.over !== null || !Number.isFinite(shift.clock)) return shift;
  const clock = Math.max(0, shift.clock - seconds);
  const fallen = shift.cards.map((card) => ({ ...card, height: card.height + card.speed * seconds }));
  const cards = fallen.filter((card) => card.height < 1);
  const lost = fallen.length - cards.length;
  const next: Shift = {
    ...shift,
    clock,
    cards,
    nextCard: Math.min(shift.nextCard - seconds, cards.length === 0 ? SOON : Infinity),
    missed: shift.missed + lost,
    streak: lost > 0 ? 0 : shift.streak,
    said: lost > 0 ? "A card fell unanswered." : shift.said,
  };
  if (clock === 0) return { ...next, over: "The shift is over." };
  if (next.made >= CARDS) return cards.length > 0 ? next : { ...next, over: "Every card is dealt with." };
  return next.nextCard <= 0 && cards.length < MOST_AT_ONCE ? deal(next, random) : next;
}

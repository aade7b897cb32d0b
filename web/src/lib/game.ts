// Release control, as a pure state machine: a seed determines the requests and the noise; the caller passes the time.
//
// All noise is Laplace and all people are fictional. Charges are integer billionths of epsilon, rounded up, and add up within
// a group: pure epsilon composes adaptively, so the sum holds although each release is chosen after seeing the last.

import { LAPLACE_95 } from "./browser-accountant/closed";

export const SECONDS = 75;
export const REQUESTS = 30; // in a shift, however fast they are answered
export const STEADY = 20; // in text mode, which has no clock
export const PLACES = 4; // in the queue
export const NARROWEST = 0.03; // as a fraction of the half-width of the line
export const LAPSE_COSTS = 20;
export const WRONG_COSTS = 2; // times its worth: a wrong number does harm
const TURNS = 5; // releases until a requester leaves, in text mode
const NANO = 1e9;

export type Name = "clinic" | "school" | "city";

export interface Group {
  people: number;
  whom: string;
  of: string;
  reach: number; // half-width of the number line
  cap: number; // epsilon
  cards: number;
  finest: number; // smallest tolerance
  coarsest: number;
  most: readonly number[]; // one person's largest contribution
  asks: readonly (readonly [asker: string, one: string, many?: string])[]; // questions for contributions of one, and of more
}

export const GROUPS: Readonly<Record<Name, Group>> = {
  clinic: {
    people: 41,
    whom: "patients",
    of: "the clinic’s 41 patients",
    reach: 40,
    cap: 2.3,
    cards: 8,
    finest: 1.5,
    coarsest: 16,
    most: [1, 1, 2],
    asks: [
      ["the health office", "How many smoke?"],
      ["a journal", "How many have asthma?"],
      ["the pharmacy", "How many take insulin?"],
      ["an insurer", "How many came back?"],
    ],
  },
  school: {
    people: 312,
    whom: "pupils",
    of: "the school’s 312 pupils",
    reach: 150,
    cap: 1.2,
    cards: 10,
    finest: 5,
    coarsest: 60,
    most: [1, 1, 3],
    asks: [
      ["the canteen", "How many eat here?", "How many meals a day?"],
      ["the parents", "How many walk?", "How many clubs joined?"],
      ["the ministry", "How many fell behind?", "How many tests missed?"],
      ["a newspaper", "How many were bullied?", "How many incidents?"],
    ],
  },
  city: {
    people: 5200,
    whom: "riders",
    of: "the city’s 5\u202f200 riders",
    reach: 1000,
    cap: 0.4,
    cards: 12,
    finest: 35,
    coarsest: 400,
    most: [1, 1, 4],
    asks: [
      ["the bus company", "How many took line 4?", "How many trips?"],
      ["the police", "How many rode at night?", "How many night trips?"],
      ["a planner", "How many change trains?", "How many changes?"],
      ["a start-up", "How many bought snacks?", "How many snacks?"],
    ],
  },
};

export const NAMES = Object.keys(GROUPS) as Name[];

export interface Request {
  id: number;
  group: Name;
  asker: string;
  question: string;
  truth: number;
  most: number; // the sensitivity
  tolerance: number; // an answer with a larger error is useless
  worth: number; // points
  arrives: number; // seconds after the one before
  patience: number; // seconds
  luck: number; // in (0, 1): the quantile of the noise drawn
}

export interface Waiting extends Request {
  slot: number; // 1 to 4: the key that selects it, reused after it leaves
  left: number; // seconds; releases in text mode
}

export type RequestStatus = "useful" | "useless" | "lapsed" | "open";

export interface Answer {
  id: number;
  group: Name;
  asker: string;
  multiplier: number; // noise scale b over sensitivity, as in the playground
  nanos: number;
  published: number; // the published value
  error: number;
  tolerance: number;
  useful: boolean;
  points: number;
}

export interface Shift {
  seed: string;
  clock: number; // seconds left; Infinity in text mode
  deck: readonly Request[];
  dealt: number;
  next: number; // seconds until the next request
  queue: readonly Waiting[];
  chosen: number | null; // the selected id; null selects the longest-waiting request
  width: number; // of the noise: its 95% range, as a fraction of the line's half-width
  answers: readonly Answer[];
  lapsed: readonly number[];
  score: number;
  message: string;
  over: string | null;
}

/** Return a generator of numbers in [0, 1), seeded by a text: FNV-1a into mulberry32. */
export function chance(seed: string): () => number {
  let state = 2166136261;
  for (const unit of seed) state = Math.imul(state ^ unit.codePointAt(0)!, 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Return the seed of a day's shift, the same in every time zone. */
export const seedOf = (day: Date): string => day.toISOString().slice(0, 10);

/** Return a valid seed from the URL, else null. */
export const readSeed = (text: string | undefined): string | null => (text !== undefined && /^[\w-]{1,24}$/.test(text) ? text : null);

export function deal(seed: string): Request[] {
  const random = chance(seed);
  const order = NAMES.flatMap((name) => Array<Name>(GROUPS[name].cards).fill(name));
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order.map((group, id) => {
    const { people, finest, coarsest, most, asks } = GROUPS[group];
    const demand = id === 0 ? 0.15 : random(); // 0 coarse, 1 fine; the first request is easy
    const each = id === 0 ? 1 : most[Math.floor(random() * most.length)]!;
    const [asker, one, many] = asks[Math.floor(random() * asks.length)]!;
    const late = id / (REQUESTS - 1);
    return {
      id,
      group,
      asker,
      question: (each > 1 && many) || one,
      truth: Math.round(each * people * (0.2 + 0.5 * random())),
      most: each,
      tolerance: Math.round(coarsest * (finest / coarsest) ** demand),
      worth: 10 * Math.round(5 + 5 * demand + 8 * random()),
      arrives: id === 0 ? 0 : 2.6 - 0.7 * late,
      patience: 16 - 4 * late,
      luck: (Math.floor(random() * 2 ** 31) + 0.5) / 2 ** 31,
    };
  });
}

export function start(seed: string, words: boolean): Shift {
  const deck = deal(seed);
  const shift: Shift = {
    seed,
    clock: words ? Infinity : SECONDS,
    deck: words ? deck.slice(0, STEADY) : deck,
    dealt: 0,
    next: 0,
    queue: [],
    chosen: null,
    width: 1,
    answers: [],
    lapsed: [],
    score: 0,
    message: "The shift begins.",
    over: null,
  };
  return words ? fill(shift) : arrive(shift);
}

const steady = (shift: Shift): boolean => shift.clock === Infinity;

function arrive(shift: Shift): Shift {
  const request = shift.deck[shift.dealt]!;
  const slot = Array.from({ length: PLACES }, (_, i) => i + 1).find((place) => shift.queue.every((each) => each.slot !== place))!;
  const queue = [...shift.queue, { ...request, slot, left: steady(shift) ? TURNS : request.patience }];
  const dealt = shift.dealt + 1;
  return { ...shift, queue, dealt, next: shift.deck[dealt]?.arrives ?? Infinity };
}

function fill(shift: Shift): Shift {
  let next = shift;
  while (next.queue.length < PLACES && next.dealt < next.deck.length) next = arrive(next);
  return next;
}

/** Return the request that a release would answer: the selected one, else the longest-waiting one. */
export const active = (shift: Shift): Waiting | null => shift.queue.find((each) => each.id === shift.chosen) ?? shift.queue[0] ?? null;

export const pick = (shift: Shift, id: number): Shift => (shift.queue.some((each) => each.id === id) ? { ...shift, chosen: id } : shift);

export const steer = (shift: Shift, width: number): Shift => ({ ...shift, width: Math.min(1, Math.max(NARROWEST, width)) });

/**
 * Return the noise scale over the sensitivity, with three digits ending in 3 or 7: sums of such inverses are never short
 * decimals, for which two programs could round differently.
 */
export function multiplierOf(request: Request, width: number): number {
  const wanted = (width * GROUPS[request.group].reach) / (LAPLACE_95 * request.most);
  const unit = 10 ** (Math.floor(Math.log10(wanted)) - 2);
  const digits = Math.round(wanted / unit);
  const near = [-4, -3, -2, -1, 0, 1, 2, 3, 4].map((step) => digits + step).filter((each) => each > 100 && [3, 7].includes(each % 10));
  const best = near.reduce((a, b) => (Math.abs(b - wanted / unit) < Math.abs(a - wanted / unit) ? b : a), near[0] ?? 103);
  return Number((best * unit).toPrecision(3));
}

/** Return the charge of a release. With three digits the remainder far exceeds the rounding error, so the ceiling is exact. */
export const chargeOf = (multiplier: number): number => Math.ceil(NANO / multiplier);

export const spent = (shift: Shift, group: Name): number =>
  shift.answers.reduce((sum, each) => sum + (each.group === group ? each.nanos : 0), 0);

export const capOf = (group: Name): number => Math.floor(GROUPS[group].cap * NANO);

/** Return the epsilon of a charge. */
export const epsilonOf = (nanos: number): number => nanos / NANO;

/** Bound the growth of any attacker's odds that one person is in the data: e to the epsilon, rounded up. */
export const oddsOf = (nanos: number): number => (nanos === 0 ? 1 : Math.exp(epsilonOf(nanos)) * (1 + 1e-14));

/** Return the probability that a draw is within the tolerance. */
export const chanceOf = (request: Request, multiplier: number): number => -Math.expm1(-request.tolerance / (multiplier * request.most));

/** Return a quantile of the noise. */
export const quantile = (scale: number, at: number): number => -Math.sign(at - 0.5) * scale * Math.log1p(-2 * Math.abs(at - 0.5));

export const fits = (shift: Shift, request: Request, width: number): boolean =>
  spent(shift, request.group) + chargeOf(multiplierOf(request, width)) <= capOf(request.group);

const signed = (points: number): string => (points < 0 ? `−${-points}` : `+${points}`);

export function release(shift: Shift): Shift {
  const request = active(shift);
  if (request === null || shift.over !== null) return shift;
  if (!fits(shift, request, shift.width)) return { ...shift, message: "Refused before reading the data: the budget is too small. Add noise, or answer another request." };
  const multiplier = multiplierOf(request, shift.width);
  const error = Math.round(quantile(multiplier * request.most, request.luck));
  const useful = Math.abs(error) <= request.tolerance;
  const points = useful ? request.worth : -WRONG_COSTS * request.worth;
  const published = request.truth + error;
  const off = error === 0 ? "exact" : `off by ${Math.abs(error)}`;
  const answer: Answer = { id: request.id, group: request.group, asker: request.asker, multiplier, nanos: chargeOf(multiplier), published, error, tolerance: request.tolerance, useful, points };
  const message = `${published} released to ${request.asker}, ${off}: ${useful ? "useful" : "useless"}, ${signed(points)}.`;
  const gone: Shift = {
    ...shift,
    queue: shift.queue.filter((each) => each.id !== request.id),
    chosen: null,
    width: 1, // each release starts from full width
    answers: [...shift.answers, answer],
    score: shift.score + points,
    message,
  };
  return finished(steady(gone) ? fill(age(gone, 1)) : gone);
}

/** Let time pass; requests leave when their patience ends. */
function age(shift: Shift, by: number): Shift {
  const waited = shift.queue.map((each) => ({ ...each, left: each.left - by }));
  const queue = waited.filter((each) => each.left > 0);
  const left = waited.filter((each) => each.left <= 0);
  if (left.length === 0) return { ...shift, queue };
  const names = left.map((each) => each.asker).join(" and ");
  const message = `${steady(shift) ? `${shift.message} ` : ""}${names[0]!.toUpperCase()}${names.slice(1)} left without an answer, −${LAPSE_COSTS * left.length}.`;
  return { ...shift, queue, lapsed: [...shift.lapsed, ...left.map((each) => each.id)], score: shift.score - LAPSE_COSTS * left.length, message };
}

/** Decline a request in text mode: it lapses. */
export function decline(shift: Shift): Shift {
  const request = active(shift);
  if (request === null || shift.over !== null || !steady(shift)) return shift;
  const queue = shift.queue.map((each) => (each.id === request.id ? { ...each, left: 0 } : each));
  return finished(fill(age({ ...shift, queue, message: "", chosen: null }, 0)));
}

const finished = (shift: Shift): Shift =>
  shift.queue.length === 0 && shift.dealt >= shift.deck.length ? { ...shift, over: "All requests are done." } : shift;

/** Let `seconds` pass: the clock runs, requests arrive and leave. */
export function tick(shift: Shift, seconds: number): Shift {
  if (shift.over !== null || steady(shift)) return shift;
  const clock = Math.max(0, shift.clock - seconds);
  let next: Shift = { ...age(shift, seconds), clock, next: shift.next - seconds };
  if (clock === 0) {
    const open = next.queue.map((each) => each.id);
    return { ...next, queue: [], lapsed: [...next.lapsed, ...open], score: next.score - LAPSE_COSTS * open.length, over: "The shift is over." };
  }
  if (next.queue.length === 0 && next.dealt < next.deck.length) next = { ...next, next: Math.min(next.next, 0.6) };
  if (next.next <= 0 && next.queue.length < PLACES && next.dealt < next.deck.length) next = arrive(next);
  return finished(next);
}

export function listStatuses(shift: Shift): RequestStatus[] {
  return shift.deck.map(({ id }) => {
    const answer = shift.answers.find((each) => each.id === id);
    return answer ? (answer.useful ? "useful" : "useless") : shift.lapsed.includes(id) ? "lapsed" : "open";
  });
}

export interface Outcome {
  group: Name;
  nanos: number;
  asked: number; // requests received
  answered: number;
  useful: number;
  furthest: number; // the largest published error
}

/** Return the privacy loss and the results of each group. */
export const outcomes = (shift: Shift): Outcome[] =>
  NAMES.map((group) => {
    const given = shift.answers.filter((each) => each.group === group);
    return {
      group,
      nanos: spent(shift, group),
      asked: given.length + shift.lapsed.filter((id) => shift.deck[id]!.group === group).length,
      answered: given.length,
      useful: given.filter((each) => each.useful).length,
      furthest: given.reduce((most, each) => Math.max(most, Math.abs(each.error)), 0),
    };
  });

/** Return a playground link with a group's releases; its bound is the game's charge. */
export function playgroundOf(shift: Shift, group: Name): string {
  const counts = new Map<number, number>();
  for (const each of shift.answers) if (each.group === group) counts.set(each.multiplier, (counts.get(each.multiplier) ?? 0) + 1);
  const mix = [...counts].map(([multiplier, count]) => `laplace:${multiplier}:::${count}`).join("|");
  return `/playground?${new URLSearchParams({ v: "1", mix, delta: "1e-12", relation: "add-or-remove-one" })}`;
}

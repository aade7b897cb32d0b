// Release control, as a pure state machine: a seed determines who asks what; an act leads from one state to the next.
//
// No true number enters a state, only published ones, so no choice can depend on the data except through a release. Pure
// epsilon composes adaptively: the charges of a group add up. They are integer billionths of epsilon, rounded up.

import { LAPLACE_95 } from "./browser-accountant/closed";

export const REQUESTS = 48;
export const PLACES = 5; // requests that wait at once
export const UPCOMING = 6; // later requests of which the question shows, but not the tolerance nor the worth
const PATIENCE = 8; // acts until a request leaves
export const WRONG_COSTS = 2; // times its worth: a wrong number does harm
export const CLOCK = 240; // seconds, where a clock is wanted
const NANO = 1e9;

export type Name = "clinic" | "school" | "city";

export interface Group {
  people: number;
  whom: string;
  cap: number; // epsilon
  finest: number; // smallest tolerance
  coarsest: number;
  askers: readonly string[];
  questions: readonly (readonly [text: string, most: number])[]; // with one person's largest contribution
}

export const GROUPS: Readonly<Record<Name, Group>> = {
  clinic: {
    people: 41,
    whom: "patients",
    cap: 2.25,
    finest: 1.5,
    coarsest: 30,
    askers: ["the health office", "a journal", "the pharmacy", "an insurer", "a charity", "the council"],
    questions: [["How many smoke?", 1], ["How many have asthma?", 1], ["How many take insulin?", 1], ["How many live alone?", 1], ["How many allergies?", 2], ["How many medicines?", 2], ["How many visits?", 4]],
  },
  school: {
    people: 312,
    whom: "pupils",
    cap: 0.675,
    finest: 5,
    coarsest: 100,
    askers: ["the canteen", "the parents", "the ministry", "a newspaper", "a sports club", "the mayor"],
    questions: [["How many walk?", 1], ["How many eat here?", 1], ["How many fell behind?", 1], ["How many were bullied?", 1], ["How many siblings?", 2], ["How many clubs joined?", 2], ["How many tests missed?", 4]],
  },
  city: {
    people: 5200,
    whom: "riders",
    cap: 0.095,
    finest: 35,
    coarsest: 700,
    askers: ["the bus company", "the police", "a planner", "a start-up", "a landlord", "a charity"],
    questions: [["How many took line 4?", 1], ["How many rode at night?", 1], ["How many have a pass?", 1], ["How many stood?", 1], ["How many complaints?", 2], ["How many changes?", 2], ["How many trips?", 4]],
  },
};

export const NAMES = Object.keys(GROUPS) as Name[];

export interface Request {
  id: number;
  group: Name;
  asker: string;
  question: number; // of the group
  most: number; // the sensitivity
  tolerance: number; // an answer with a larger error is wrong
  worth: number; // points
}

export interface Waiting extends Request {
  left: number; // acts until it leaves
}

export interface Release {
  request: Request;
  multiplier: number; // noise scale over sensitivity, as in the playground
  published: number;
}

export type Act = { id: number; kind: "release"; multiplier: number; published: number } | { id: number; kind: "hand-on" | "decline" };

export interface Answer {
  request: Request;
  release: Release;
  free: boolean; // a number that was released before
}

export interface Shift {
  seed: string;
  deck: readonly Request[];
  dealt: number;
  waiting: readonly Waiting[];
  releases: readonly Release[];
  answers: readonly Answer[];
  acts: readonly Act[];
  over: boolean;
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

export const sameQuestion = (a: Request, b: Request): boolean => a.group === b.group && a.question === b.question;
export const questionOf = ({ group, question }: Request): string => GROUPS[group].questions[question]![0];

export function deal(seed: string): Request[] {
  const random = chance(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const shuffle = <T>(items: T[]): T[] => {
    for (let i = items.length - 1; i > 0; i--) {
      const j = below(i + 1);
      [items[i], items[j]] = [items[j]!, items[i]!];
    }
    return items;
  };
  const popular = Object.fromEntries(NAMES.map((name) => [name, shuffle([...GROUPS[name].questions.keys()])]));
  const deck = Array.from({ length: REQUESTS }, (_, i) => {
    const group = NAMES[i % NAMES.length]!;
    const { askers, questions, finest, coarsest } = GROUPS[group];
    const question = popular[group]![Math.min(questions.length - 1, Math.floor(-Math.log1p(-random()) / 0.45))]!; // some are asked often
    const demand = random() ** 0.33; // most want a precise answer
    const tolerance = Math.max(1, Math.round(coarsest * (finest / coarsest) ** demand - 0.5));
    const points = 10 * Math.round(1 + 30 * random() ** 5); // few are worth much
    return { group, asker: askers[below(askers.length)]!, question, most: questions[question]![1], tolerance, worth: points };
  });
  return shuffle(deck).map((request, id) => ({ id, ...request }));
}

export const start = (seed: string): Shift => fill({ seed, deck: deal(seed), dealt: 0, waiting: [], releases: [], answers: [], acts: [], over: false });

function fill(shift: Shift): Shift {
  const dealt = Math.min(REQUESTS, shift.dealt + PLACES - shift.waiting.length);
  const waiting = [...shift.waiting, ...shift.deck.slice(shift.dealt, dealt).map((request) => ({ ...request, left: PATIENCE }))];
  return { ...shift, dealt, waiting, over: waiting.length === 0 };
}

/**
 * The noise scales over the sensitivity that can be chosen, 3% or more apart. Three digits end in 3 or 7: sums of such
 * inverses are practically never short decimals, for which two programs could round differently.
 */
const SCALES: number[] = [];
for (let power = -3; power <= 1; power++)
  for (let digits = 103; digits < 1000; digits += digits % 10 === 3 ? 4 : 6) {
    const scale = Number(`${digits}e${power}`);
    if (scale >= 1.03 * (SCALES.at(-1) ?? 0)) SCALES.push(scale);
  }

/** Return the multipliers for a request, from nearly always useful to not worth the risk. */
export const choicesOf = (request: Request): number[] => SCALES.filter((multiplier) => {
  const useful = chanceOf(request, multiplier);
  return useful > 0.6 && useful < 0.9995;
});

/** Return the noisiest multiplier at which 19 of 20 draws are useful. */
export const steady = (request: Request): number => SCALES.findLast((multiplier) => multiplier * request.most * LAPLACE_95 <= request.tolerance + 0.5)!;

/** Return the probability that a draw, rounded to an integer, is within the tolerance. */
export const chanceOf = (request: Request, multiplier: number): number => -Math.expm1(-(request.tolerance + 0.5) / (multiplier * request.most));

/** Return the points to expect, with those that a wrong number costs. */
export const expectedOf = (request: Request, multiplier: number): number => request.worth * (1 - (1 + WRONG_COSTS) * (1 - chanceOf(request, multiplier)));

/** Return the charge of a release. With three digits the remainder far exceeds the rounding error, so the ceiling is exact. */
export const chargeOf = (multiplier: number): number => Math.ceil(NANO / multiplier);

export const capOf = (group: Name): number => Math.floor(GROUPS[group].cap * NANO);

export const spent = (shift: Shift, group: Name): number =>
  shift.releases.reduce((sum, { request, multiplier }) => sum + (request.group === group ? chargeOf(multiplier) : 0), 0);

export const fits = (shift: Shift, request: Request, multiplier: number): boolean => spent(shift, request.group) + chargeOf(multiplier) <= capOf(request.group);

/** Return the epsilon of a charge. */
export const epsilonOf = (nanos: number): number => nanos / NANO;

/** Bound the growth of any attacker's odds that one person is in the data: e to the epsilon, rounded up. */
export const oddsOf = (nanos: number): number => (nanos === 0 ? 1 : Math.exp(epsilonOf(nanos)) * (1 + 1e-14));

/** Return the most precise number that was released for a question, if any. */
export const knownOf = (shift: Shift, request: Request): Release | null =>
  shift.releases.filter((each) => sameQuestion(each.request, request)).reduce<Release | null>((best, each) => (best && best.multiplier <= each.multiplier ? best : each), null);

/** Return the state after an act; the same state if the act is not allowed. All others who wait come closer to leaving. */
export function act(shift: Shift, done: Act): Shift {
  const request = shift.waiting.find(({ id }) => id === done.id);
  if (!request || shift.over) return shift;
  const known = knownOf(shift, request);
  let { releases, answers } = shift;
  if (done.kind === "release") {
    if (!(done.multiplier > 0) || !fits(shift, request, done.multiplier)) return shift;
    const release = { request, multiplier: done.multiplier, published: done.published };
    [releases, answers] = [[...releases, release], [...answers, { request, release, free: false }]];
  } else if (done.kind === "hand-on") {
    if (known === null) return shift;
    answers = [...answers, { request, release: known, free: true }];
  }
  const waiting = shift.waiting.filter(({ id, left }) => id !== done.id && left > 1).map((each) => ({ ...each, left: each.left - 1 }));
  return fill({ ...shift, releases, answers, waiting, acts: [...shift.acts, done] });
}

/** Whether a request can be answered at all: by a number that is out, or with the most noise that is worth its risk. */
export const isAnswerable = (shift: Shift, request: Request): boolean => knownOf(shift, request) !== null || fits(shift, request, choicesOf(request).at(-1)!);

/** Decline those who wait, first come first, until somebody can be answered; nothing while somebody can. */
export function declineUntilAnswerable(shift: Shift): Shift {
  let next = shift;
  while (!next.over && !next.waiting.some((each) => isAnswerable(next, each))) next = act(next, { id: next.waiting[0]!.id, kind: "decline" });
  return next;
}

/** End the shift: nobody who waits is answered. */
export const close = (shift: Shift): Shift => ({ ...shift, waiting: [], over: true });

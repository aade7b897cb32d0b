import { expect, test } from "vitest";
import { fromQuery } from "../src/lib/url-state";
import type { Request, Shift, Waiting } from "../src/lib/game";
import {
  active,
  capOf,
  chance,
  chanceOf,
  chargeOf,
  deal,
  decline,
  fits,
  GROUPS,
  LAPSE_COSTS,
  listStatuses,
  multiplierOf,
  NAMES,
  NARROWEST,
  oddsOf,
  outcomes,
  pick,
  PLACES,
  playgroundOf,
  quantile,
  readSeed,
  release,
  REQUESTS,
  SECONDS,
  seedOf,
  spent,
  start,
  STEADY,
  steer,
  tick,
  WRONG_COSTS,
} from "../src/lib/game";

/** The width at which 95% of the draws are of use. */
const right = (request: Request): number => request.tolerance / GROUPS[request.group].reach;
const answered = (shift: Shift, width = right(active(shift)!)): Shift => release(steer(shift, width));
const SEEDS = Array.from({ length: 10 }, (_, i) => `seed-${i}`);

test("a seed decides the requests and what each draw is, whatever was done before", () => {
  expect(deal("2026-11-23")).toEqual(deal("2026-11-23"));
  expect(deal("2026-11-23")).not.toEqual(deal("2026-11-24"));
  const [one, two] = [start("a", true), pick(start("a", true), 2)];
  const errors = (shift: Shift): Map<number, number> => new Map(shift.answers.map((each) => [each.id, each.error]));
  const [first, second] = [errors(answered(answered(answered(one)))), errors(answered(two))];
  expect(second.get(2)).toBe(first.get(2));
  expect(seedOf(new Date("2026-11-23T23:59:59Z"))).toBe("2026-11-23");
  expect(readSeed("2026-11-23")).toBe("2026-11-23");
  for (const text of [undefined, "", "a b", "<i>", "x".repeat(25)]) expect(readSeed(text)).toBeNull();
});

test("luck is uniform, and draws are Laplace", () => {
  const luck = SEEDS.flatMap((seed) => deal(seed).map((each) => each.luck));
  const far = luck.reduce((most, value) => Math.max(most, Math.abs(luck.filter((other) => other <= value).length / luck.length - value)), 0);
  expect(far).toBeLessThan(1.95 / Math.sqrt(luck.length)); // Kolmogorov and Smirnov, one in a thousand
  expect(quantile(3, 0.5)).toBeCloseTo(0, 12);
  for (const at of [0.01, 0.3, 0.8, 0.99]) {
    const x = quantile(3, at);
    expect(x < 0 ? 0.5 * Math.exp(x / 3) : 1 - 0.5 * Math.exp(-x / 3)).toBeCloseTo(at, 12);
  }
});

test("charges are whole billionths, never below the price, and the caps are kept", () => {
  for (const request of deal("prices").slice(0, 12))
    for (let width = 1; width >= NARROWEST; width /= 1.13) {
      const multiplier = multiplierOf(request, width);
      const wanted = (width * GROUPS[request.group].reach) / (Math.log(20) * request.most);
      expect(Math.abs(multiplier / wanted - 1)).toBeLessThan(0.04);
      const [digits, places] = [BigInt(multiplier.toString().replace(".", "").replace(/^0+/, "")), (multiplier.toString().split(".")[1] ?? "").length];
      expect(BigInt(chargeOf(multiplier)) * digits).toBeGreaterThanOrEqual(10n ** BigInt(9 + places));
      expect((BigInt(chargeOf(multiplier)) - 1n) * digits).toBeLessThan(10n ** BigInt(9 + places));
      expect(["3", "7"]).toContain(digits.toString().at(-1)!);
      expect(chanceOf(request, multiplier)).toBeCloseTo(1 - Math.exp(-request.tolerance / (multiplier * request.most)), 12);
    }
  expect(oddsOf(0)).toBe(1);
  expect(oddsOf(1e9)).toBeGreaterThan(Math.E);
  expect(oddsOf(1e9)).toBeCloseTo(Math.E, 12);
});

test("a useful number earns its worth, a useless one costs more, and the noise springs back", () => {
  let useful = 0;
  for (const seed of SEEDS) {
    const before = start(seed, true);
    const request = active(before)!;
    const after = answered(before);
    const [answer] = after.answers;
    expect(answer!.useful).toBe(Math.abs(answer!.error) <= request.tolerance);
    expect(after.score).toBe(answer!.useful ? request.worth : -WRONG_COSTS * request.worth);
    expect(after.width).toBe(1);
    expect(answer!.published).toBe(request.truth + answer!.error);
    useful += Number(answer!.useful);
  }
  expect(useful).toBeGreaterThan(0.75 * SEEDS.length); // 95% each
});

test("what a budget cannot bear is refused, and nothing is drawn", () => {
  const shift = steer(start("poor", true), NARROWEST);
  const request = active(shift)!;
  const poor = { ...shift, answers: [{ ...answered(shift).answers[0]!, group: request.group, nanos: capOf(request.group) }] };
  expect(fits(poor, request, NARROWEST)).toBe(false);
  const after = release(poor);
  expect(after.answers).toBe(poor.answers);
  expect(after.message).toContain("Refused");
});

test("any request can be taken, the one that has waited longest is next, and who waits too long leaves", () => {
  let shift = start("queue", false);
  while (shift.queue.length < 3) shift = tick(shift, 0.1);
  const last = shift.queue.at(-1)!;
  expect(active(shift)).toBe(shift.queue[0]);
  shift = pick(shift, last.id);
  expect(active(shift)).toBe(last);
  expect(pick(shift, 999)).toBe(shift);
  const after = answered(shift);
  expect(after.queue.map((each) => each.id)).not.toContain(last.id);
  expect(active(after)).toBe(after.queue[0]);
  expect(new Set(shift.queue.map((each) => each.slot)).size).toBe(3);
  let idle = start("queue", false);
  while (idle.lapsed.length === 0) idle = tick(idle, 0.1);
  expect(idle.score).toBe(-LAPSE_COSTS);
  expect(idle.queue.length).toBeLessThanOrEqual(PLACES);
});

test("in words there is no clock, releases pass the time, and anybody can be turned away", () => {
  let shift = start("words", true);
  expect(tick(shift, 1000)).toBe(shift);
  expect(shift.queue.length).toBe(PLACES);
  const away = decline(shift);
  expect([away.score, away.lapsed, away.queue.length]).toEqual([-LAPSE_COSTS, [0], PLACES]);
  while (shift.over === null) shift = shift.answers.length % 3 === 2 || !fits(shift, active(shift)!, right(active(shift)!)) ? decline(shift) : answered(shift);
  expect(shift.answers.length + shift.lapsed.length).toBe(STEADY);
  expect(listStatuses(shift)).not.toContain("open");
  expect(decline(shift)).toBe(shift);
});

test("the playground is given the very releases, and their inverses add up to what was charged", () => {
  for (const seed of SEEDS.slice(0, 4)) {
    const shift = play(seed, careful);
    for (const group of NAMES) {
      const { raw } = fromQuery(playgroundOf(shift, group).split("?")[1]!);
      const lines = raw.mix!.split("|").map((line) => line.split(":"));
      const given = shift.answers.filter((each) => each.group === group);
      expect(lines.reduce((sum, line) => sum + Number(line[4]), 0)).toBe(given.length);
      const sum = lines.reduce((total, line) => total + Number(line[4]) / Number(line[1]), 0);
      expect(spent(shift, group) / 1e9).toBeGreaterThanOrEqual(sum * (1 - 1e-15));
      expect(spent(shift, group) / 1e9 - sum).toBeLessThan(given.length * 1e-9);
      expect(spent(shift, group)).toBeLessThanOrEqual(capOf(group));
    }
    const told = outcomes(shift);
    expect(told.reduce((sum, each) => sum + each.asked, 0)).toBe(shift.answers.length + shift.lapsed.length);
    for (const each of shift.answers) expect(Math.abs(each.error)).toBeLessThanOrEqual(told.find(({ group }) => group === each.group)!.furthest);
  }
});

type Player = (shift: Shift, frame: number, random: () => number) => Shift;

/** A whole shift at ten frames a second. */
function play(seed: string, act: Player): Shift {
  const random = chance(`hand of ${seed}`);
  let shift = start(seed, false);
  for (let frame = 0; shift.over === null && frame < 10 * SECONDS + 10; frame++) shift = tick(act(shift, frame, random), 0.1);
  return shift;
}

const average = (act: Player): number => SEEDS.reduce((sum, seed) => sum + play(seed, act).score, 0) / SEEDS.length;

/** One request in two and a half seconds: of those that the budgets bear, the one that earns most for its part of a budget. */
const careful: Player = (shift, frame) => {
  if (frame % 25 !== 0) return shift;
  const gain = (each: Waiting): number => (each.worth * capOf(each.group)) / chargeOf(multiplierOf(each, right(each)));
  const able = shift.queue.filter((each) => fits(shift, each, right(each)) && gain(each) > 300);
  if (able.length === 0) return shift;
  const chosen = able.reduce((a, b) => (gain(b) > gain(a) ? b : a));
  return release(steer(pick(shift, chosen.id), right(chosen)));
};

test("whoever mashes keys scores nothing, whoever steers and chooses clearly more", () => {
  const played = average(careful);
  expect(played).toBeGreaterThan(1200);
  for (const seed of SEEDS) expect(play(seed, careful).score, seed).toBeGreaterThan(300);
  const mashers: Record<string, Player> = {
    "left and space": (shift) => release(steer(shift, shift.width / 1.12)),
    "right and space": (shift) => release(steer(shift, shift.width * 1.12)),
    "space alone": (shift) => release(shift),
    "the least noise": (shift) => release(steer(shift, NARROWEST)),
    "anywhere": (shift, _, random) => release(steer(shift, random())),
    "anywhere, slowly, anybody": (shift, frame, random) => {
      if (frame % 4 !== 0 || shift.queue.length === 0) return shift;
      return release(steer(pick(shift, shift.queue[Math.floor(random() * shift.queue.length)]!.id), random()));
    },
    "nothing": (shift) => shift,
  };
  for (const [name, masher] of Object.entries(mashers)) expect(average(masher), name).toBeLessThan(0.15 * played);
  // choosing matters: whoever answers the first that can be answered gets less
  const first: Player = (shift, frame) => {
    const able = shift.queue.find((each) => fits(shift, each, right(each)));
    return frame % 25 !== 0 || !able ? shift : release(steer(pick(shift, able.id), right(able)));
  };
  expect(average(first)).toBeLessThan(0.93 * played);
});

test("requests are limited, however fast they are answered, and the clock ends the shift", () => {
  for (const seed of SEEDS) {
    const shift = play(seed, (now) => (active(now) ? answered(now) : now));
    expect(shift.answers.length + shift.lapsed.length).toBeLessThanOrEqual(REQUESTS);
    expect(shift.score).toBeLessThanOrEqual(deal(seed).reduce((sum, each) => sum + each.worth, 0));
  }
  const idle = play("idle", (shift) => shift);
  expect(idle.over).toBe("The shift is over.");
  expect(idle.score).toBe(-LAPSE_COSTS * idle.lapsed.length);
  expect(tick(idle, 1)).toBe(idle);
});

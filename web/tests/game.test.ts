import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { fromQuery } from "../src/lib/url-state";
import type { Request, Shift } from "../src/lib/game";
import { act, capOf, chanceOf, chargeOf, choicesOf, close, deal, declineUntilAnswerable, expectedOf, fits, GROUPS, isAnswerable, knownOf, NAMES, PLACES, readSeed, REQUESTS, sameQuestion, seedOf, spent, start, steady, WRONG_COSTS } from "../src/lib/game";
import { newKey, openKey, publish, quantile } from "../src/lib/game-noise";
import { checkRecord, expectedPoints, firstCome, lessons, missed, playgroundOf, record } from "../src/lib/game-result";
import * as bots from "./game-bots";

const SEEDS = Array.from({ length: 6 }, (_, i) => `seed-${i}`);
const KEY = "000102030405060708090a0b0c0d0e0f";
const release = (shift: Shift, request: Request, multiplier = steady(request)): Shift => act(shift, { id: request.id, kind: "release", multiplier, published: 7 });
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test("a seed determines the requests, whoever plays", () => {
  expect(deal("2026-11-23")).toEqual(deal("2026-11-23"));
  expect(deal("2026-11-23")).not.toEqual(deal("2026-11-24"));
  expect(seedOf(new Date("2026-11-23T23:59:59Z"))).toBe("2026-11-23");
  expect(readSeed("2026-11-23")).toBe("2026-11-23");
  for (const text of [undefined, "", "a b", "<i>", "x".repeat(25)]) expect(readSeed(text)).toBeNull();
});

test("five wait, each for eight acts, and the shift ends when nobody waits", () => {
  let shift = start("queue");
  expect(shift.waiting.map(({ id }) => id)).toEqual([0, 1, 2, 3, 4]);
  for (let turn = 0; turn < 7; turn++) shift = act(shift, { id: shift.waiting.at(-1)!.id, kind: "decline" });
  expect(shift.waiting.map(({ id, left }) => [id, left])).toEqual([[0, 1], [1, 1], [2, 1], [3, 1], [11, 8]]);
  shift = act(shift, { id: 11, kind: "decline" });
  expect(shift.waiting.map(({ id }) => id)).toEqual([12, 13, 14, 15, 16]);
  while (!shift.over) {
    expect(shift.waiting.length).toBe(Math.min(PLACES, shift.waiting.length + REQUESTS - shift.dealt));
    shift = act(shift, { id: shift.waiting[0]!.id, kind: "decline" });
  }
  expect(shift.dealt).toBe(REQUESTS);
  expect(close(start("queue")).over).toBe(true);
});

test("an act that is not allowed changes nothing", () => {
  const shift = start("poor");
  const request = shift.waiting[0]!;
  const most = 1e9 / capOf(request.group);
  for (const multiplier of [0, -1, NaN, 0.999 * most]) expect(release(shift, request, multiplier)).toBe(shift);
  expect(release(shift, request, 1.001 * most)).not.toBe(shift);
  expect(act(shift, { id: request.id, kind: "hand-on" })).toBe(shift); // nothing is published yet
  expect(act(shift, { id: 40, kind: "decline" })).toBe(shift); // does not wait
  expect(act(close(shift), { id: request.id, kind: "decline" })).toEqual(close(shift));
});

test("once no budget bears an answer, one act declines until somebody can be answered", () => {
  const fresh = start("stuck");
  expect(declineUntilAnswerable(fresh)).toBe(fresh); // nothing is declined while somebody can be answered
  const spender = { ...fresh.deck[0]!, id: 99, question: 99 };
  const spend = (shift: Shift, groups: readonly string[]): Shift => ({ ...shift, releases: NAMES.filter((name) => groups.includes(name)).map((group) => ({ request: { ...spender, group }, multiplier: 1.0001e9 / capOf(group), published: 0 })) });
  const two = declineUntilAnswerable(spend(fresh, NAMES.slice(0, 2)));
  expect(two.waiting.some((each) => isAnswerable(two, each))).toBe(true);
  for (const done of two.acts) expect([done.kind, fresh.deck[done.id]!.group === NAMES[2]]).toEqual(["decline", false]);
  const none = declineUntilAnswerable(spend(fresh, NAMES));
  expect([none.over, none.dealt]).toEqual([true, REQUESTS]);
  expect(expectedPoints(none.answers)).toBe(0);
});

test("a published number is handed on for free, to anybody who asks the same, and the most precise one is", () => {
  const { shift } = bots.play("reuse", bots.seeded("reuse"), bots.greedy(true));
  const free = shift.answers.filter((each) => each.free);
  expect(free.length).toBeGreaterThan(3);
  for (const { request, release } of free) expect(sameQuestion(request, release.request)).toBe(true);
  const paid = shift.acts.filter((done) => done.kind === "release");
  expect(NAMES.reduce((sum, name) => sum + spent(shift, name), 0)).toBe(paid.reduce((sum, done) => sum + chargeOf(done.multiplier), 0));
  const request = shift.deck[0]!;
  const thrice = { ...shift, releases: [5.03, 3.07, 4.03].map((multiplier) => ({ request, multiplier, published: 1 })) };
  expect(knownOf(thrice, request)!.multiplier).toBe(3.07);
});

test("charges are whole billionths of epsilon, never below the price", () => {
  for (const request of deal("prices").slice(0, 16)) {
    const choices = choicesOf(request);
    expect(choices).toContain(steady(request));
    expect(chanceOf(request, steady(request))).toBeGreaterThanOrEqual(0.95 - 1e-12);
    expect(chanceOf(request, choices[choices.indexOf(steady(request)) + 1]!)).toBeLessThan(0.95);
    for (const multiplier of choices) {
      const [digits, places] = [BigInt(multiplier.toString().replace(".", "").replace(/^0+/, "")), (multiplier.toString().split(".")[1] ?? "").length];
      expect(["3", "7"]).toContain(digits.toString().at(-1)!);
      expect(BigInt(chargeOf(multiplier)) * digits).toBeGreaterThanOrEqual(10n ** BigInt(9 + places));
      expect((BigInt(chargeOf(multiplier)) - 1n) * digits).toBeLessThan(10n ** BigInt(9 + places));
    }
  }
});

/** The log-probability that Laplace noise of a scale, rounded, is k: an integral over [k - 1/2, k + 1/2], in closed form. */
const logChance = (scale: number, k: number): number => (k === 0 ? Math.log(-Math.expm1(-0.5 / scale)) : Math.log(Math.sinh(0.5 / scale)) - Math.abs(k) / scale);

test("no transcript tells more of one person than was charged: checked on the probabilities of the outputs", () => {
  for (const player of [bots.greedy(true), bots.random("any")])
    for (const seed of SEEDS) {
      const { shift } = bots.play(seed, bots.seeded(seed), player);
      for (const group of NAMES) {
        let loss = 0; // the largest log-ratio of the whole transcript; acts depend on published numbers only
        for (const { request, multiplier } of shift.releases.filter((each) => each.request.group === group)) {
          const scale = multiplier * request.most;
          const ratios = Array.from({ length: 41 }, (_, k) => k - 20).flatMap((k) => [1, -1].map((sign) => Math.abs(logChance(scale, k) - logChance(scale, k + sign * request.most))));
          loss += Math.max(...ratios);
        }
        expect(loss).toBeLessThanOrEqual(spent(shift, group) / 1e9 + 1e-12);
        expect(loss).toBeGreaterThanOrEqual((spent(shift, group) / 1e9) * 0.999999); // the control: a smaller charge fails
        expect(spent(shift, group)).toBeLessThanOrEqual(capOf(group));
      }
    }
});

test("a state holds published numbers only: it follows from the seed and the acts, so a choice cannot see the truth", () => {
  for (const seed of SEEDS) {
    const { shift } = bots.play(seed, bots.seeded(seed), bots.greedy(true));
    expect(shift.acts.reduce(act, start(seed))).toEqual(shift);
  }
});

test("the playground is given the very releases, and their inverses add up to the charge", () => {
  for (const seed of SEEDS.slice(0, 4)) {
    const { shift } = bots.play(seed, bots.seeded(seed), bots.greedy(true));
    for (const group of NAMES.filter((name) => spent(shift, name) > 0)) {
      const { raw } = fromQuery(playgroundOf(shift, group).split("?")[1]!);
      const lines = raw.mix!.split("|").map((line) => line.split(":"));
      const given = shift.releases.filter((each) => each.request.group === group);
      expect(lines.reduce((sum, line) => sum + Number(line[4]), 0)).toBe(given.length);
      const sum = lines.reduce((total, line) => total + Number(line[4]) / Number(line[1]), 0);
      expect(spent(shift, group) / 1e9).toBeGreaterThanOrEqual(sum * (1 - 1e-15));
      expect(spent(shift, group) / 1e9 - sum).toBeLessThan(given.length * 1e-9);
    }
  }
});

test("a key decides truths and noise by SHA-256, as anybody can compute", async () => {
  const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
  const uniform = (label: string): number => (parseInt(hash(`${KEY} ${label}`).slice(0, 13), 16) + 0.5) / 2 ** 52;
  const secret = await openKey(KEY);
  expect(secret.commitment).toBe(hash(KEY));
  for (const request of deal("hashes")) {
    expect(secret.drawOf(request)).toBe(uniform(`noise ${request.id}`));
    const truth = Math.round(request.most * GROUPS[request.group].people * (0.2 + 0.5 * uniform(`truth ${request.group} ${request.question}`)));
    expect(secret.truthOf(request)).toBe(truth);
    const at = uniform(`noise ${request.id}`);
    const noise = at < 0.5 ? 3 * request.most * Math.log(2 * at) : -3 * request.most * Math.log(2 * (1 - at));
    expect(publish(secret, request, 3)).toBe(truth + Math.round(noise));
  }
  const keys = new Set(Array.from({ length: 100 }, newKey));
  expect(keys.size).toBe(100);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
});

test("draws are uniform, and their quantiles Laplace", async () => {
  const deck = deal("any");
  const luck = (await Promise.all(SEEDS.map((_, i) => openKey(KEY.replace("00", `a${i}`))))).flatMap((secret) => deck.map(secret.drawOf));
  const far = Math.max(...luck.map((value) => Math.abs(luck.filter((other) => other <= value).length / luck.length - value)));
  expect(far).toBeLessThan(1.95 / Math.sqrt(luck.length)); // Kolmogorov and Smirnov, one in a thousand
  for (const at of [0.01, 0.3, 0.8, 0.99]) {
    const x = quantile(3, at);
    expect(x < 0 ? 0.5 * Math.exp(x / 3) : 1 - 0.5 * Math.exp(-x / 3)).toBeCloseTo(at, 12);
  }
});

test("a record is checked from its key alone, and each change to it is noticed", async () => {
  const secret = await openKey(KEY);
  const { shift } = bots.play("record", secret, bots.greedy(true));
  const text = record(shift, secret);
  expect(await checkRecord(text)).toBeNull();
  expect(await checkRecord(`\n${text.replaceAll("\n", "\r\n")}\n`)).toBeNull(); // as a mail brings it
  const lines = text.split("\n");
  const changed = (at: number, from: RegExp, to: string): string => {
    const line = lines[at]!.replace(from, to);
    expect(line).not.toBe(lines[at]);
    return lines.with(at, line).join("\n");
  };
  const at = lines.findIndex((line) => line.includes("release"));
  const free = lines.findIndex((line) => line.includes("hand-on"));
  const found = [
    [changed(0, /-?\d+ points/, "9999 points"), /points, not 9999/],
    [changed(0, /record/, "recording"), /./],
    [changed(1, /^commitment ./, (lines[1]![11] === "0" ? "commitment 1" : "commitment 0")), /does not match the commitment/],
    [changed(2, /0f$/, "0e"), /does not match the commitment/],
    [changed(at, /\d+$/, "-5"), /another number/],
    [changed(at, /release \S+/, "release 977"), /another number/],
    [changed(at, /release .*/, "decline"), /./],
    [changed(at, /release .*/, "hand-on"), /rules do not allow/],
    [changed(free, /hand-on/, "decline"), /points, not/],
    [changed(free, /hand-on/, "keep"), /not an act/],
    [changed(free, /^\d+/, "99"), /not an act/],
    [lines.toSpliced(free, 1).join("\n"), /./],
    [lines.toSpliced(2, 1).join("\n"), /not the record/],
    ["", /not the record/],
  ] as const;
  for (const [other, reason] of found) expect(await checkRecord(other), other.slice(0, 200)).toMatch(reason);
});

test("points, and what was learned, are those of the player's own game", async () => {
  const secret = await openKey(KEY);
  const { shift, results, points } = bots.play("learned", secret, bots.greedy(true));
  for (const { request, release, useful, points: earned } of results) {
    expect(useful).toBe(Math.abs(release.published - secret.truthOf(request)) <= request.tolerance);
    expect(earned).toBe(useful ? request.worth : -WRONG_COSTS * request.worth);
  }
  const told = lessons(shift, results);
  expect(told).toHaveLength(3);
  expect(told[0]).toContain(`answered ${results.length} of 48 people for ${points} points`);
  expect(Number(/: ([\d.]+) times/.exec(told[0]!)![1])).toBeLessThanOrEqual(points / firstCome("learned"));
  expect(told[1]).toContain(`${shift.answers.filter((each) => each.free).length} people got`);
  const dearest = Math.max(...shift.releases.map(({ request, multiplier }) => chargeOf(multiplier) / capOf(request.group)));
  const percent = Number(/took ([\d.]+)%/.exec(told[2]!)![1]);
  expect(percent).toBeGreaterThanOrEqual(100 * dearest);
  expect(percent).toBeLessThan(100 * dearest * 1.1);
  const plain = bots.play("learned", secret, bots.firstCome);
  const without = plain.shift.deck.filter((request) => plain.shift.releases.some((each) => sameQuestion(each.request, request)) && plain.results.every((each) => each.request.id !== request.id));
  expect(missed(plain.shift)).toEqual(without);
  expect(lessons(plain.shift, plain.results)[1]).toContain(`${without.length} people left without`);
  const alone = close(release(start("learned"), plain.shift.deck[0]!));
  expect(missed(alone).length > 0 || lessons(alone, [])[1]!.includes("Nobody else asked")).toBe(true);
  const idle = bots.play("learned", secret, (now) => bots.decline(now.waiting[0]!));
  expect(lessons(idle.shift, idle.results)[2]).toContain("published nothing");
});

test("expected points are the mean of points over draws", () => {
  const request = { ...deal("mean")[0]!, worth: 100 };
  for (const factor of [0.5, 1, 2]) {
    const multiplier = factor * steady(request);
    const points = Array.from({ length: 20_000 }, (_, i) => (Math.abs(Math.round(quantile(multiplier * request.most, (i + 0.5) / 20_000))) <= request.tolerance ? 100 : -200));
    expect(Math.abs(mean(points) - expectedOf(request, multiplier))).toBeLessThan(0.1);
  }
  const paysAt = (of20: number): boolean => expectedOf(request, (request.tolerance + 0.5) / (-Math.log1p(-of20 / 20) * request.most)) > 0;
  expect([paysAt(13), paysAt(14)]).toEqual([false, true]);
  const { shift } = bots.play("mean", bots.seeded("mean"), bots.firstCome);
  expect(expectedPoints(shift.answers)).toBe(firstCome("mean"));
});

const ALL = Boolean(process.env.EPSILOG_TEST_ALL); // `make test-all` plays more decks
const DECKS = Array.from({ length: ALL ? 300 : 60 }, (_, i) => `day-${i}`);
const averageOf = (name: string, player: (seed: string) => bots.Player): number => mean(DECKS.map((seed) => bots.play(seed, bots.seeded(`${name} ${seed}`), player(seed)).points));

test("choosing doubles what serving in order of arrival scores, and planning quadruples it", () => {
  const base = averageOf("first", () => bots.firstCome);
  const factorOf = (name: string, player: (seed: string) => bots.Player): number => averageOf(name, player) / base;
  const [chosen, reused] = [factorOf("chooser", bots.chooser), factorOf("reuse", () => bots.greedy(true))];
  expect(chosen).toBeGreaterThan(2);
  expect(reused).toBeGreaterThan(2);
  const table: [name: string, found: number, expected: number][] = [
    ["random", factorOf("random", bots.random), 0.5],
    ["greedy by price", factorOf("greedy", () => bots.greedy(false)), 1.85],
    ["best choice of a known deck, without reuse", chosen, 2.55],
    ["greedy with reuse", reused, 2.8],
    ["planner of a known deck", factorOf("planner", bots.planner), 4.4],
    ["expected for the first to come", mean(DECKS.map(firstCome)) / base, 1],
  ];
  for (const [name, found, expected] of table) expect(Math.abs(found - expected), `${name}: ${found}`).toBeLessThan(ALL ? 0.2 : 0.5);
});

test("whoever knows the draws of a first try gains nothing in the second", () => {
  const base = averageOf("first", () => bots.firstCome);
  const earlier = (seed: string) => bots.seeded(`earlier ${seed}`);
  const fresh = averageOf("second", (seed) => bots.prophet(earlier(seed)));
  expect(fresh).toBeLessThan(base);
  const replayed = mean(DECKS.map((seed) => bots.play(seed, earlier(seed), bots.prophet(earlier(seed))).points));
  expect(replayed).toBeGreaterThan(3 * base); // the control: if draws came again, it would gain much
});

test("most requests fit an untouched budget, but not all do", () => {
  const affordable = SEEDS.flatMap((seed) => deal(seed).map((request) => Number(fits(start(seed), request, steady(request)))));
  expect(mean(affordable)).toBeGreaterThan(0.6);
  expect(mean(affordable)).toBeLessThan(1);
});

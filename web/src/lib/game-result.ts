// The end of a shift: points, what the player's own game shows, and a record that anybody can check.

import { act, capOf, chargeOf, expectedOf, fits, questionOf, readSeed, REQUESTS, sameQuestion, start, steady, WRONG_COSTS } from "./game";
import type { Act, Answer, Name, Request, Shift } from "./game";
import type { Secret } from "./game-noise";
import { openKey, publish } from "./game-noise";
import { show, showInteger, showPercent } from "./numbers";
import { toQuery } from "./url-state";

export const addressOf = (seed: string): string => `/game?${toQuery({ seed })}`;
export const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

export interface Result extends Answer {
  useful: boolean;
  points: number;
}

/** Compare the answers with the true numbers, which nobody sees before the shift is over. */
export const settle = (shift: Shift, truthOf: (request: Request) => number): Result[] =>
  shift.answers.map((answer) => {
    const { request, release } = answer;
    const useful = Math.abs(release.published - truthOf(request)) <= request.tolerance;
    return { ...answer, useful, points: useful ? request.worth : -WRONG_COSTS * request.worth };
  });

export const pointsOf = (results: readonly Result[]): number => results.reduce((sum, { points }) => sum + points, 0);

export const expectedPoints = (answers: readonly Answer[]): number => answers.reduce((sum, { request, release }) => sum + expectedOf(request, release.multiplier), 0);

/** Return the points to expect of serving in order of arrival, each new release at 19 of 20 while the budgets last. */
export function firstCome(seed: string): number {
  let shift = start(seed);
  while (!shift.over) {
    const request = shift.waiting[0]!;
    const multiplier = steady(request);
    shift = act(shift, fits(shift, request, multiplier) ? { id: request.id, kind: "release", multiplier, published: 0 } : { id: request.id, kind: "decline" });
  }
  return expectedPoints(shift.answers);
}

/** Return the requests without an answer whose question was released for somebody else. */
export const missed = (shift: Shift): Request[] =>
  shift.deck.slice(0, shift.dealt).filter((request) => shift.releases.some((each) => sameQuestion(each.request, request)) && !shift.answers.some((each) => each.request.id === request.id));

const people = (count: number): string => (count === 1 ? "One person" : `${showInteger(count)} people`);

/** Return what the player's own game shows, in three sentences: choosing, post-processing and the price of precision. */
export function lessons(shift: Shift, results: readonly Result[]): string[] {
  const [points, base] = [pointsOf(results), firstCome(shift.seed)];
  const free = results.filter((each) => each.free);
  const unserved = missed(shift).length;
  const chose = `You answered ${results.length} of ${REQUESTS} people for ${showInteger(points)} points`;
  const factor = points / base;
  const [dearest] = [...shift.releases].sort((a, b) => shareOf(b.multiplier, b.request.group) - shareOf(a.multiplier, a.request.group));
  return [
    factor > 1 ? `${chose}: ${show(factor, 2, "down")} times the ${showInteger(base)} that serving in order of arrival can expect here.` : `${chose}; serving in order of arrival can expect ${showInteger(base)} here, and choosing by points per budget about twice that.`,
    free.length > 0
      ? `${people(free.length)} got a number that was already published: that cost no budget, because post-processing reveals nothing more about anybody.`
      : unserved > 0
        ? `${people(unserved)} left without a number that you had published for others: to hand it on is post-processing, which costs no budget.`
        : "Nobody else asked for a number that you had published: one that many ask for serves them all at the same budget.",
    dearest
      ? `“${questionOf(dearest.request)}” within ±${dearest.request.tolerance} took ${showPercent(shareOf(dearest.multiplier, dearest.request.group), 2, "up")} of the ${dearest.request.group}’s budget: twice the noise would have cost half of it.`
      : "You published nothing: nobody’s privacy was spent, and nobody was helped.",
  ];
}

/** Return a charge as a fraction of a group's cap. */
export const shareOf = (multiplier: number, group: Name): number => chargeOf(multiplier) / capOf(group);

/** Return a game as text: what was claimed, the key, and every act. */
export const record = (shift: Shift, secret: Secret): string =>
  [
    `Release control ${shift.seed}: ${pointsOf(settle(shift, secret.truthOf))} points`,
    `commitment ${secret.commitment}`,
    `key ${secret.key}`,
    ...shift.acts.map((done) => (done.kind === "release" ? `${done.id} release ${done.multiplier} ${done.published}` : `${done.id} ${done.kind}`)),
  ].join("\n");

/** Replay a record from its seed and its key. Return the first contradiction, or null if all comes out again. */
export async function checkRecord(text: string): Promise<string | null> {
  const [first, second, third, ...acts] = text.trim().split(/\s*\n/);
  const [, seed, points] = /^Release control (\S+): (-?\d+) points$/.exec(first ?? "") ?? [];
  const commitment = /^commitment ([0-9a-f]{64})$/.exec(second ?? "")?.[1];
  const key = /^key ([0-9a-f]{32})$/.exec(third ?? "")?.[1];
  if (!readSeed(seed) || !commitment || !key) return "This is not the record of a game: it begins with the points, the commitment and the key.";
  const secret = await openKey(key);
  if (secret.commitment !== commitment) return "The key does not match the commitment.";
  let shift = start(seed!);
  for (const line of acts) {
    const [, id, kind, multiplier, published] = /^(\d+) (release|hand-on|decline)(?: (\S+) (-?\d+))?$/.exec(line) ?? [];
    const request = shift.deck[Number(id)];
    if (!request || (kind === "release") !== (multiplier !== undefined)) return `“${line.slice(0, 60)}” is not an act.`;
    if (kind === "release" && publish(secret, request, Number(multiplier)) !== Number(published)) return `The key gives another number than ${published} for request ${id}.`;
    const done = { id: request.id, kind, multiplier: Number(multiplier), published: Number(published) } as Act;
    const next = act(shift, done);
    if (next === shift) return `The rules do not allow “${line}”.`;
    shift = next;
  }
  const found = pointsOf(settle(shift, secret.truthOf));
  return found === Number(points) ? null : `The acts give ${found} points, not ${points}.`;
}

/** Return a playground link with a group's releases; its bound is the game's charge. */
export function playgroundOf(shift: Shift, group: Name): string {
  const counts = new Map<number, number>();
  for (const { request, multiplier } of shift.releases) if (request.group === group) counts.set(multiplier, (counts.get(multiplier) ?? 0) + 1);
  const mix = [...counts].map(([multiplier, count]) => `laplace:${multiplier}:::${count}`).join("|");
  return `/playground?${new URLSearchParams({ v: "1", mix, delta: "1e-12", relation: "add-or-remove-one" })}`;
}

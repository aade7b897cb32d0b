// Players of the game, for its tests: each maps a state to an act. Only the planner and the prophet know what a player cannot.

import * as game from "../src/lib/game";
import type { Act, Request, Shift, Waiting } from "../src/lib/game";
import type { Secret } from "../src/lib/game-noise";
import { publish, quantile } from "../src/lib/game-noise";
import type { Result } from "../src/lib/game-result";
import { pointsOf, settle } from "../src/lib/game-result";

/** The decision alone: the number that a release publishes is not the player's to know. */
export type Decision = { request: Request; kind: "release"; multiplier: number } | { request: Request; kind: "hand-on" | "decline" };
export type Player = (shift: Shift) => Decision;

/** A secret from a seeded generator instead of a key's hashes: faster, and the same at each run. */
export function seeded(seed: string): Secret {
  const random = game.chance(seed);
  const draws = Array.from({ length: game.REQUESTS }, () => random() || 0.5);
  const truths = Object.fromEntries(game.NAMES.map((name) => [name, game.GROUPS[name].questions.map(() => Math.round(100 * random()))]));
  return { key: seed, commitment: "", drawOf: ({ id }) => draws[id]!, truthOf: ({ group, question }) => truths[group]![question]! };
}

export function actOf(secret: Secret, { request, ...rest }: Decision): Act {
  return rest.kind === "release" ? { id: request.id, ...rest, published: publish(secret, request, rest.multiplier) } : { id: request.id, kind: rest.kind };
}

export function play(seed: string, secret: Secret, player: Player): { shift: Shift; results: Result[]; points: number } {
  let shift = game.start(seed);
  while (!shift.over) {
    const next = game.act(shift, actOf(secret, player(shift)));
    if (next === shift) throw new Error("a bot made an act that is not allowed");
    shift = next;
  }
  const results = settle(shift, secret.truthOf);
  return { shift, results, points: pointsOf(results) };
}

export const decline = (request: Request): Decision => ({ request, kind: "decline" });
const handOn = (request: Request): Decision => ({ request, kind: "hand-on" });
const release = (request: Request, multiplier: number): Decision => ({ request, kind: "release", multiplier });
const releaseOrDecline = (shift: Shift, request: Request, multiplier: number): Decision => (game.fits(shift, request, multiplier) ? release(request, multiplier) : decline(request));
const largest = <T>(items: readonly T[], of: (item: T) => number): T => items.reduce((a, b) => (of(b) > of(a) ? b : a));
/** The chance that the number that was released is useful; 0 where there is none. */
const sure = (shift: Shift, request: Request): number => {
  const known = game.knownOf(shift, request);
  return known ? game.chanceOf(request, known.multiplier) : 0;
};

export const random = (seed: string): Player => {
  const dice = game.chance(`dice of ${seed}`);
  return (shift) => {
    const request = shift.waiting[Math.floor(dice() * shift.waiting.length)]!;
    return releaseOrDecline(shift, request, game.steady(request) * 2 ** (4 * dice() - 2));
  };
};

export const firstCome: Player = (shift) => releaseOrDecline(shift, shift.waiting[0]!, game.steady(shift.waiting[0]!));

/**
 * Rank by points per charge, and release if that exceeds a bar that falls as the shift ends. With reuse: hand on what is
 * released; count all who wait and ask the same, and half a usual worth for each upcoming request that does.
 */
export const greedy = (reuse: boolean): Player => (shift) => {
  const known = shift.waiting.find((request) => sure(shift, request) > 0.75);
  if (reuse && known) return handOn(known);
  const upcoming = shift.deck.slice(shift.dealt, shift.dealt + game.UPCOMING);
  const valueOf = (request: Waiting): number => {
    const same = (other: Request): boolean => game.sameQuestion(other, request) && other.id !== request.id;
    const others = shift.waiting.filter((other) => same(other) && other.tolerance >= request.tolerance);
    const points = request.worth + (reuse ? others.reduce((sum, { worth }) => sum + worth, 20 * upcoming.filter(same).length) : 0);
    return (points / game.chargeOf(game.steady(request))) * (game.capOf(request.group) / 135);
  };
  const able = shift.waiting.filter((request) => game.fits(shift, request, game.steady(request)) && !(reuse && sure(shift, request) > 2 / 3));
  const bar = (0.9 * (game.REQUESTS - shift.dealt)) / game.REQUESTS;
  const good = able.filter((request) => valueOf(request) >= bar);
  return good.length === 0 ? decline(shift.waiting[0]!) : ((best) => release(best, game.steady(best)))(largest(good, valueOf));
};

interface Option {
  cost: number; // steps of a budget
  points: number;
}

const STEPS = 200;

/** Choose one option from each list, for the most points within a budget of so many steps. */
function knapsack(lists: readonly (readonly Option[])[]): Option[] {
  let best = new Float64Array(STEPS + 1);
  const picks = lists.map((options) => {
    const after = new Float64Array(STEPS + 1);
    const picked = new Uint16Array(STEPS + 1);
    for (let total = 0; total <= STEPS; total++)
      options.forEach(({ cost, points }, i) => {
        const sum = cost <= total ? best[total - cost]! + points : -1;
        if (sum > after[total]!) [after[total], picked[total]] = [sum, i];
      });
    best = after;
    return picked;
  });
  const chosen: Option[] = [];
  let left = STEPS;
  for (let i = lists.length - 1; i >= 0; i--) {
    chosen[i] = lists[i]![picks[i]![left]!]!;
    left -= chosen[i]!.cost;
  }
  return chosen;
}

/** Knows the deck, reuses nothing: the best set of requests at 19 of 20. */
export function chooser(seed: string): Player {
  const taken = new Set<number>();
  for (const group of game.NAMES) {
    const asking = game.deal(seed).filter((request) => request.group === group);
    const options = asking.map((request) => [{ cost: 0, points: 0 }, { cost: Math.ceil((STEPS * game.chargeOf(game.steady(request))) / game.capOf(group)), points: request.worth }]);
    knapsack(options).forEach(({ cost }, i) => cost > 0 && taken.add(asking[i]!.id));
  }
  return (shift) => (taken.has(shift.waiting[0]!.id) ? firstCome(shift) : decline(shift.waiting[0]!));
}

/** Knows the deck: releases each question once, at the noise that is best for all who ask it, and hands it on. */
export function planner(seed: string): Player {
  const plan = new Map<string, number>();
  const deck = game.deal(seed);
  for (const group of game.NAMES) {
    const multiplierOf = (cost: number): number => (1.000001 * STEPS * 1e9) / game.capOf(group) / cost;
    const options = game.GROUPS[group].questions.map((_, question) => {
      const asking = deck.filter((request) => request.group === group && request.question === question);
      const pointsFor = (cost: number): number => asking.reduce((sum, request) => sum + Math.max(0, game.expectedOf(request, multiplierOf(cost))), 0);
      return Array.from({ length: STEPS + 1 }, (_, cost) => ({ cost, points: cost === 0 ? 0 : pointsFor(cost) }));
    });
    knapsack(options).forEach(({ cost }, question) => cost > 0 && plan.set(`${group} ${question}`, multiplierOf(cost)));
  }
  return (shift) => {
    const request = shift.waiting[0]!;
    const multiplier = plan.get(`${request.group} ${request.question}`);
    if (multiplier === undefined || game.chanceOf(request, multiplier) <= 2 / 3) return decline(request);
    return game.knownOf(shift, request) ? handOn(request) : releaseOrDecline(shift, request, multiplier);
  };
}

/** Knows the draws of an earlier try: adds as much noise as would just have been useful then. */
export const prophet = (earlier: Secret): Player => (shift) => {
  const request = shift.waiting[0]!;
  const luck = Math.abs(quantile(1, earlier.drawOf(request))) * request.most;
  return releaseOrDecline(shift, request, Math.min(1e6, (0.999 * (request.tolerance + 0.49)) / luck));
};

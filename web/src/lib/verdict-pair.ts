// The verdict card of epsilon and delta alone, as plan/verdict.py has it: what an element computes without a server.

import type { Message } from "./messages";
import { type DeploymentModel, PUBLISHED, type VerdictResponse } from "./openapi";

const [OF, FPR, NEARLY_ALL, OPEN] = [1000, 0.01, 990, 0.999];
const GUESSED = OF * FPR;
const SLACK = 1 + 32 * Number.EPSILON; // above the rounding of the few operations below
const IRREGULAR: Record<string, string> = { person: "people", child: "children", individual: "people" };

/** What a card shows; the hash and its text are the server's. */
export type Card = Omit<VerdictResponse, "text" | "sha256" | "engine" | "date" | "published"> & Partial<Pick<VerdictResponse, "text" | "sha256" | "engine" | "date">> & { published: readonly Budget[] };

/** A published epsilon, as the chart shows it. */
export type Budget = Pick<DeploymentModel, "name" | "protects" | "epsilon">;

export interface Pair {
  epsilon: number;
  delta: number;
  prior: number;
  unit: string;
  replaces: boolean;
}

/** Return the plural of a privacy unit (`pluralize`). */
export function pluralize(unit: string): string {
  const match = /^(|[a-z -]*[ -])([a-z]+)$/.exec(unit);
  if (!match) return `units (${unit})`;
  const [before, noun] = [match[1]!, match[2]!];
  if (IRREGULAR[noun]) return before + IRREGULAR[noun];
  if (/[^aeiou]y$/.test(noun)) return `${before}${noun.slice(0, -1)}ies`;
  return `${before}${noun}${/(s|x|z|ch|sh)$/.test(noun) ? "es" : "s"}`;
}

/** Bound the best attack's rate, rounded up: the trade-off function of (epsilon, delta)-DP (Kairouz et al. 2015). */
export function boundRate(epsilon: number, delta: number): number {
  return Math.min(1, SLACK * Math.min(Math.exp(epsilon) * FPR + delta, 1 - Math.exp(-epsilon) * (1 - delta - FPR)));
}

const countOf = (rate: number): number => Math.max(GUESSED, Math.min(OF, Math.ceil(OF * rate)));

function writeFound(found: number, { unit, replaces }: Pair): Message {
  if (found >= NEARLY_ALL) return ["page/nearly-all", { unit }];
  return [`page/${found <= GUESSED + 1 ? "hardly" : "found"}-${replaces ? "value" : "participation"}`, { found, units: pluralize(unit) }];
}

function writeHighest({ epsilon, delta, prior }: Pair): Message {
  if (delta === 0 && epsilon === 0) return "verdict/highest-none";
  const growth = delta === 0 ? epsilon : (epsilon + Math.LN2) * SLACK; // P(loss > epsilon + ln 2) <= 2 delta
  const odds = (Math.exp(growth) * prior) / (1 - prior);
  const highest = delta < 0.5 && odds < Infinity ? Math.min(1, (SLACK * odds) / (1 + odds)) : 1;
  if (highest > OPEN) return "verdict/highest-open";
  return delta === 0 ? ["verdict/highest-pure", { highest, factor: growth }] : ["verdict/highest", { chance: 2 * delta, highest, factor: growth }];
}

/** Return the card of a pair. */
export function cardOfPair(pair: Pair): Card {
  const { epsilon, delta, prior, unit } = pair;
  const [tpr, units] = [boundRate(epsilon, delta), pluralize(unit)];
  const found = countOf(tpr);
  const posterior = Math.min(1, (SLACK * prior * tpr) / (prior * tpr + (1 - prior) * FPR));
  const percent = Number((100 * prior).toPrecision(12));
  return {
    found,
    guessed: GUESSED,
    leaked: 0,
    epsilon,
    prior,
    posterior: Math.min(posterior, OPEN),
    banner: [],
    headline: writeFound(found, pair) as VerdictResponse["headline"],
    notes: [["page/guessing", { guessed: GUESSED, units }], delta > 0 ? "verdict/pair" : "verdict/pair-pure"],
    suspicion: posterior > OPEN ? ["verdict/suspicion-open", { prior: percent }] : ["verdict/suspicion", { prior: percent, posterior }],
    highest: writeHighest(pair) as VerdictResponse["highest"],
    claim: ["page/epsilon-each", { epsilon, delta, unit }],
    origin: [],
    unprotected: ["verdict/holders", ...["page/in-general", "page/several", "verdict/other-releases"].map((id): [string, Record<string, unknown>] => [id, { units }])],
    published_note: "verdict/published",
    published: PUBLISHED,
    units,
  };
}

// Quantities as people read them: each is rounded once, from the stored number, to three digits.

import type { Message } from "./messages";
import { maxTpr, type Point } from "./tradeoff";
import type { Release } from "./browser-accountant/releases";
import { show, typeset } from "./numbers";

/** An upper bound, or an error: rounded up. */
export const bound = (value: number | null | undefined): string => show(value, 3, "up");

/** A lower bound, or what is left of a budget: rounded down. */
export const left = (value: number | null | undefined): string => show(value, 3, "down");

/** An estimate, or an input: rounded to the nearest. */
export const near = (value: number | null | undefined): string => show(value, 3);

/** Every digit, for experts. */
export const exact = (value: number | null | undefined): string => (Number.isFinite(value) ? typeset(String(value)) : show(value));

/** Round a figure again that the server rounded outward to four digits: the same as rounding the number itself. */
export const again = (text: string, rounded = bound): string => (/^\d[\d,]*(\.\d+)?(e[+-]?\d+)?$/.test(text) ? rounded(Number(text.replaceAll(",", ""))) : text);

export const OF = 1000;
export const FPR = 0.01; // of those outside the data, whom the attack wrongly accuses
export const GUESSED = OF * FPR;
const [NEARLY_ALL, HARDLY_ANY] = [990, 11];

/** Return how many of 1,000 units an attack of this success picks out at most. */
export const countOf = (tpr: number): number => Math.min(OF, Math.max(GUESSED, Math.ceil(OF * (tpr + 1e-12))));

/** Return a count of 1,000 units, in words. */
export const countPicked = (found: number): string => (found >= NEARLY_ALL ? "nearly all" : `${found}\u00a0of\u00a01,000`);

/** Return what that count means, beside guessing. */
export const explainPicked = (found: number, units: string): Message => [`calculator/${found >= NEARLY_ALL ? "nearly-all" : found <= HARDLY_ANY ? "hardly-picked" : "picked"}`, { units, guessed: GUESSED }];

const SHARES = [...Array.from({ length: 40 }, (_, i) => i / 32), 1.4, 1.7]; // of the epsilon at delta 1e-3

/** Return points of the browser's bound on the privacy profile of a release. */
export function sampleProfile(release: Release): Point[] {
  const reach = Math.max(1e-3, Math.min(600, release.epsilon(1e-3)));
  const at = SHARES.map((share) => share * reach);
  return release.deltas(at, 1e-8).map((delta, i) => ({ epsilon: at[i]!, delta }));
}

/** Return the browser's bound on the best attack's success: from the claim, and the release's profile if it has one. */
export const boundAttack = (claim: Point, release: Release | null): number => maxTpr([claim, ...(release ? sampleProfile(release) : [])], FPR);

const IRREGULAR: Readonly<Record<string, string>> = { person: "people", child: "children", individual: "people" };

/** Return the plural of a privacy unit; of what is no plain English noun, a phrase. */
export function pluralize(unit: string): string {
  const [, before, noun] = /^(|[a-z -]*[ -])([a-z]+)$/.exec(unit) ?? [];
  if (noun === undefined) return `units (${unit})`;
  if (IRREGULAR[noun]) return before + IRREGULAR[noun];
  if (/[^aeiou]y$/.test(noun)) return `${before}${noun.slice(0, -1)}ies`;
  return before + noun + (/(s|x|z|ch|sh)$/.test(noun) ? "es" : "s");
}

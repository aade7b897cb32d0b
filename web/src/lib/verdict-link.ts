// Addresses of verdict cards, apart from the card's form: pages that link to a card load nothing of it.

import type { Raw } from "./form";
import { toQuery } from "./url-state";

const MAX_RELEASE = 7000; // characters, as in the API

/** The inputs of an address: only those that say something. */
export const cardQuery = (raw: Raw): string => toQuery(Object.fromEntries(Object.entries(raw).filter(([name, text]) => text !== "" && !(name === "simulation" && text === "no"))));

/** The address of a card about a release that another page computed; undefined for one that no address holds. */
export function verdictLink(release: object, facts: { delta: number; relation?: string | undefined; privacy_unit?: string | undefined }): string | undefined {
  const text = JSON.stringify(release);
  if (text.length > MAX_RELEASE) return undefined;
  return `/verdict?${cardQuery({ epsilon: "", release: text, delta: String(facts.delta), relation: facts.relation ?? "", privacy_unit: facts.privacy_unit ?? "" })}`;
}

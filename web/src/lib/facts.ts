// A fact of a question, as the API's description tells it: what it means and what it must be. Forms are made of these.

import type { FieldSpec } from "./form";

export interface Fact {
  readonly name: string;
  readonly kind: FieldSpec["kind"];
  readonly says: string;
  readonly initial: string;
  readonly optional?: boolean;
  readonly least?: number;
  readonly above?: number;
  readonly below?: number;
  readonly most?: number;
  readonly symbol?: string;
  readonly atMost?: string; // the fact that it must not be above
  readonly blank?: string; // what leaving it out means
  readonly choices?: readonly (readonly [value: string, label: string])[];
}

const sentence = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

/** The field for a fact; `own` is what only this page says, such as a friendlier label. */
export function fieldOf(fact: Fact, own: Partial<FieldSpec> = {}): FieldSpec {
  const { says, blank, ...rest } = fact;
  const told = fact.kind === "flag" ? { label: sentence(says) } : { label: sentence(fact.name.replaceAll("_", " ")), hint: blank ? `${says}; blank: ${blank}` : says };
  return { ...rest, ...told, ...own };
}

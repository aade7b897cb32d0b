// One release of a composition or comparison: its fields, from the API's description, and which of them a mechanism has.

import type { FieldSpec } from "./form";
import { PARAMETERS, type Part } from "./openapi";
import { makeFields } from "./parameter-spec";

type Mechanism = Part["mechanism"];
const KIND = "glossary.html#term-mechanism";
const NOISE = "glossary.html#term-noise-multiplier";
const STATED = "glossary.html#term-zcdp"; // with the other guarantees

/** Label and help of the first field of each mechanism. */
const FIRST: Record<Mechanism, readonly [label: string, helpPage: string]> = {
  gaussian: ["Noise multiplier\u00a0σ", NOISE],
  laplace: ["Noise multiplier\u00a0b/Δ", NOISE],
  "randomized-response": ["Flip probability", KIND],
  pure: ["ε", STATED],
  approximate: ["ε", STATED],
  zcdp: ["ρ", STATED],
  gdp: ["μ", STATED],
};

export const PART_FIELDS: readonly FieldSpec[] = makeFields(PARAMETERS.Part, {
  mechanism: { hint: "", initial: "gaussian", helpPage: KIND },
  parameter: { hint: "", initial: "1", min: 0 },
  second: { hint: "", min: 0 },
  sampling_probability: { hint: "blank: no sampling", initial: "", optional: true, min: 0, helpPage: "glossary.html#term-amplification" },
  count: { hint: "", helpPage: "glossary.html#term-composition" },
});

/** Return a field of a release as a mechanism has it, or null where the mechanism lacks it: it is hidden and not sent. */
export function fieldOf(spec: FieldSpec, name: string, mechanism: string): FieldSpec | null {
  const sampled = mechanism === "gaussian" || mechanism === "laplace";
  if (name === "sampling_probability") return sampled ? spec : null;
  if (name === "second") {
    const label = { approximate: "δ", "randomized-response": "Categories" }[mechanism];
    return label ? { ...spec, label } : null;
  }
  const [label, helpPage] = FIRST[mechanism as Mechanism] ?? [spec.label, KIND];
  return name === "parameter" ? { ...spec, label, helpPage } : spec;
}

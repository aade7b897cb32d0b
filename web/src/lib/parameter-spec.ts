// A parameter as the OpenAPI document describes it: its meaning and its bounds. Forms are built from these.

import type { FieldSpec } from "./form";

export interface ParameterSpec {
  readonly name: string;
  readonly kind: FieldSpec["kind"];
  readonly help: string;
  readonly initial: string;
  readonly optional?: boolean;
  readonly min?: number;
  readonly exclusiveMin?: number;
  readonly exclusiveMax?: number;
  readonly max?: number;
  readonly symbol?: string;
  readonly maxField?: string; // the parameter that it must not exceed
  readonly noneMeans?: string; // what a blank value means
  readonly choices?: readonly (readonly [value: string, label: string])[];
}

const sentence = (words: string): string => words[0]!.toUpperCase() + words.slice(1);

/** Return the form field of a parameter; `override` holds what only this page has, such as a friendlier label. */
export function makeField(spec: ParameterSpec, override: Partial<FieldSpec> = {}): FieldSpec {
  const { help, noneMeans, ...rest } = spec;
  const text = spec.kind === "flag" ? { label: sentence(help) } : { label: sentence(spec.name.replaceAll("_", " ")), hint: noneMeans ? `${help}; blank: ${noneMeans}` : help };
  return { ...rest, ...text, ...override };
}

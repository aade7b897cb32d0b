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

type Overrides<N extends string> = { readonly [name in N]?: Partial<FieldSpec> | null };

/** Return the fields of a request's parameters, in their order; an override of null leaves one out. */
export function makeFields<N extends string>(parameters: Readonly<Record<N, ParameterSpec>>, overrides: Overrides<N>): FieldSpec[] {
  return (Object.keys(parameters) as N[]).flatMap((name) => {
    const override = overrides[name];
    return override === null ? [] : [makeField(parameters[name], override)];
  });
}

/** The field of pinned scenarios: see components/Scenarios.tsx. */
export const PINS: FieldSpec = { name: "pins", label: "Scenarios", kind: "text", initial: "", optional: true, max: 1e6 };

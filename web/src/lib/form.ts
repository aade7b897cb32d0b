// A form keeps its text as typed and parses it on every keystroke; it has no values while a field is invalid.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { parseNumber } from "./numbers";
import type { FieldError } from "./types";

export interface FieldSpec {
  name: string;
  label: string;
  kind: "integer" | "real" | "amount" | "text" | "choice" | "flag" | "list"; // an amount is sent as typed
  initial: string;
  omitted?: string; // its value if a URL with other fields omits it, if not `initial`
  symbol?: string;
  hint?: string;
  unit?: string;
  optional?: boolean;
  min?: number; // allowed
  exclusiveMin?: number; // not allowed
  exclusiveMax?: number; // not allowed
  max?: number; // allowed
  maxField?: string; // the field that it must not exceed
  choices?: readonly (readonly [value: string, label: string])[];
  suggestions?: readonly string[]; // likely values
  helpPage?: string; // the page of the docs that explains it, with its anchor
}

export type Raw = Record<string, string>;
export type Value = number | string | boolean | number[] | null;
export type Values = Record<string, Value>;

/** Where a form's text is stored between visits: the URL, or an element's attributes. */
export interface Store {
  read(): Raw;
  write(raw: Raw, committed: boolean): void;
  watch(changed: () => void): () => void;
}

export function parseField(spec: FieldSpec, raw: string): { value: Value } | { error: string } {
  const text = raw.trim();
  if (spec.kind === "flag") return { value: text === "yes" };
  if (spec.kind === "choice") {
    const known = spec.choices!.some(([value]) => value === text);
    return known ? { value: text } : { error: `must be one of ${spec.choices!.map(([value]) => value).join(", ")}` };
  }
  if (text === "") return spec.optional ? { value: null } : { error: "needs a value" };
  if (spec.kind === "text") return text.length > (spec.max ?? 80) ? { error: "is too long" } : { value: text };
  if (spec.kind === "list") {
    const numbers: number[] = [];
    for (const part of text.split(/[;\s]+|,\s+/).filter(Boolean)) {
      const one = parseOne(spec, part);
      if ("error" in one) return one;
      numbers.push(one.value);
    }
    return { value: numbers };
  }
  if (spec.kind === "amount") {
    const parsed = parseOne(spec, text);
    return "error" in parsed ? parsed : AMOUNT.test(text) ? { value: text } : { error: "must be a decimal number, as 0.5 or 1e-6" };
  }
  return parseOne(spec, text);
}

const AMOUNT = /^(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$/; // the ledger's exact format

function parseOne(spec: FieldSpec, text: string): { value: number } | { error: string } {
  const parsed = parseNumber(text, { integer: spec.kind === "integer" });
  if (!parsed.ok) return { error: parsed.error };
  const { value } = parsed;
  if (spec.min !== undefined && value < spec.min) return { error: `must be at least ${spec.min}` };
  if (spec.exclusiveMin !== undefined && value <= spec.exclusiveMin) return { error: `must be above ${spec.exclusiveMin}` };
  if (spec.exclusiveMax !== undefined && value >= spec.exclusiveMax) return { error: `must be below ${spec.exclusiveMax}` };
  if (spec.max !== undefined && value > spec.max) return { error: `must be at most ${spec.max}` };
  return { value };
}

export interface Form {
  specs: readonly FieldSpec[];
  raw: Raw;
  errors: Record<string, string>;
  values: Values | null; // null while a field is invalid
  set(name: string, text: string): void;
  commit(): void;
  refuse(errors: readonly FieldError[]): void;
}

/** A store for forms of one-time actions: nothing is kept in the URL. */
export const temporaryStore: Store = { read: () => ({}), write: () => {}, watch: () => () => {} };

/** Use a form; `rule` adds errors that depend on several fields. */
export function useForm(
  specs: readonly FieldSpec[],
  store: Store,
  rule?: (values: Values) => Record<string, string>,
): Form {
  const initial = useCallback((): Raw => {
    const given = pick(store.read(), specs);
    const alone = Object.keys(given).length === 0;
    return { ...Object.fromEntries(specs.map((s) => [s.name, alone ? s.initial : (s.omitted ?? s.initial)])), ...given };
  }, [specs, store]);
  const [raw, setRaw] = useState<Raw>(initial);
  const [refused, setRefused] = useState<{ raw: Raw; errors: Record<string, string> } | null>(null);
  const latest = useRef(raw);
  latest.current = raw;
  useEffect(() => store.watch(() => setRaw(initial())), [store, initial]);

  const { values, errors } = useMemo(() => {
    const errors: Record<string, string> = {};
    const values: Values = {};
    for (const spec of specs) {
      const parsed = parseField(spec, raw[spec.name] ?? "");
      if ("error" in parsed) errors[spec.name] = parsed.error;
      else values[spec.name] = parsed.value;
    }
    for (const spec of specs) {
      const [value, most] = [values[spec.name], values[spec.maxField ?? ""]];
      if (typeof value === "number" && typeof most === "number" && value > most) errors[spec.name] = `must be at most ${nameOf(specs, spec.maxField!)}`;
    }
    if (Object.keys(errors).length === 0 && rule) Object.assign(errors, rule(values));
    return { values: Object.keys(errors).length === 0 ? values : null, errors };
  }, [raw, specs, rule]);

  const set = useCallback(
    (name: string, text: string) => {
      const next = { ...latest.current, [name]: text };
      latest.current = next;
      setRaw(next);
      store.write(next, false);
    },
    [store],
  );
  const commit = useCallback(() => store.write(latest.current, true), [store]);
  const refuse = useCallback((list: readonly FieldError[]) => {
    const byField = list.filter((error) => error.field !== null).map((error) => attachError(error.field!, error.message));
    setRefused({ raw: latest.current, errors: Object.fromEntries(byField) });
  }, []);
  const allErrors = refused && refused.raw === raw ? { ...refused.errors, ...errors } : errors;
  return { specs, raw, errors: allErrors, values, set, commit, refuse };
}

/** Return the field of a path ("weights" for "weights[1]") with the message, which names a deeper path. */
function attachError(path: string, message: string): readonly [name: string, message: string] {
  const name = /^[^.[]+/.exec(path)![0];
  return [name, name === path ? message : `(${path}) ${message}`];
}

const nameOf = (specs: readonly FieldSpec[], name: string): string => specs.find((spec) => spec.name === name)!.symbol ?? name;

const pick = (raw: Raw, specs: readonly FieldSpec[]): Raw =>
  Object.fromEntries(specs.filter((s) => raw[s.name] !== undefined).map((s) => [s.name, raw[s.name]!]));

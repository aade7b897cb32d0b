// A form keeps its text as typed and reads it on every keystroke; it has no values while a field has none.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bad, type Reading, readNumber, twoReadings, withCommas } from "./numbers";
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
  disabled?: (raw: Raw) => boolean; // whether another field's choice leaves it unused; its text stays
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

/** Read a field's text; the text itself is never changed. */
export function readField(spec: FieldSpec, raw: string): Reading<Value> {
  const text = raw.trim();
  if (spec.kind === "flag") return good(text === "yes");
  if (spec.kind === "choice") return spec.choices!.some(([value]) => value === text) ? good(text) : bad(`One of ${spec.choices!.map(([value]) => value).join(", ")}.`);
  if (text === "" && spec.optional) return good(null);
  if (spec.kind === "text") {
    if (text === "") return { state: "empty", say: "Fill this in.", offers: [] };
    return text.length > (spec.max ?? 80) ? bad(`At most ${spec.max ?? 80} characters.`) : good(text);
  }
  if (text !== "" && spec.kind === "list") return readList(spec, text);
  const read = readOne(spec, text);
  if (spec.kind !== "amount" || read.value === undefined) return read;
  const two = twoReadings(text);
  if (two) return bad("This reads two ways.", ...two);
  return AMOUNT.test(text) ? { ...read, value: text } : bad("Write it as 0.5 or 1e-6.");
}

const AMOUNT = /^(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$/; // the ledger's exact format

const good = (value: Value): Reading<Value> => ({ state: "good", value, say: "", offers: [] });

function readList(spec: FieldSpec, text: string): Reading<Value> {
  const parts = text.split(/[;\s]+|,\s+/).filter(Boolean);
  const read = parts.map((part) => readOne(spec, part));
  const at = read.findIndex((one) => one.value === undefined);
  if (at < 0) return good(read.map((one) => one.value!));
  return { ...read[at]!, offers: read[at]!.offers.map((offer) => text.replace(parts[at]!, offer)) };
}

/** Read one number within its field's bounds; what may be the beginning of one, as 0. for 0.5, is unfinished. */
function readOne(spec: FieldSpec, text: string): Reading {
  const read = readNumber(text, { integer: spec.kind === "integer" });
  if (read.value === undefined) return { ...read, offers: read.offers.filter((offer) => isUsable(readOne(spec, offer))) };
  const message = outside(spec, read.value);
  if (message === null) return read;
  return read.value === 0 && !text.startsWith("-") ? { state: "unfinished", say: message, offers: [] } : bad(message);
}

function outside(spec: FieldSpec, value: number): string | null {
  if (spec.min !== undefined && value < spec.min) return `At least ${withCommas(spec.min)}.`;
  if (spec.exclusiveMin !== undefined && value <= spec.exclusiveMin) return `Above ${withCommas(spec.exclusiveMin)}.`;
  if (spec.exclusiveMax !== undefined && value >= spec.exclusiveMax) return `Below ${withCommas(spec.exclusiveMax)}.`;
  if (spec.max !== undefined && value > spec.max) return `At most ${withCommas(spec.max)}.`;
  return null;
}

export interface Form {
  specs: readonly FieldSpec[];
  raw: Raw;
  readings: Readonly<Record<string, Reading<Value>>>;
  values: Values | null; // null while a field has no value
  waiting: string; // which fields a result waits for
  attempted: boolean; // whether the reader tried to send it; then what is empty is marked
  set(name: string, text: string): void;
  commit(): void;
  attempt(): void;
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
  const [refused, setRefused] = useState<{ raw: Raw; readings: Form["readings"] } | null>(null);
  const [attempted, setAttempted] = useState(false);
  const latest = useRef(raw);
  latest.current = raw;
  useEffect(() => store.watch(() => setRaw(initial())), [store, initial]);
  const { values, readings } = useMemo(() => readForm(specs, raw, rule), [raw, specs, rule]);

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
  const attempt = useCallback(() => setAttempted(true), []);
  const refuse = useCallback((list: readonly FieldError[]) => {
    const byField = list.filter((error) => error.field !== null).map((error) => refuseField(error.field!, error.message));
    setRefused({ raw: latest.current, readings: Object.fromEntries(byField) });
  }, []);
  const all = refused && refused.raw === raw ? { ...readings, ...refused.readings } : readings;
  return { specs, raw, readings: all, values, waiting: describeWaiting(specs, all), attempted, set, commit, attempt, refuse };
}

function readForm(specs: readonly FieldSpec[], raw: Raw, rule?: (values: Values) => Record<string, string>): Pick<Form, "values" | "readings"> {
  const readings: Record<string, Reading<Value>> = {};
  const values: Values = {};
  for (const spec of specs) {
    const read = spec.disabled?.(raw) ? UNUSED : readField(spec, raw[spec.name] ?? "");
    readings[spec.name] = read;
    if (read.value !== undefined) values[spec.name] = read.value;
  }
  for (const spec of specs) {
    const [value, most] = [values[spec.name], values[spec.maxField ?? ""]];
    if (typeof value === "number" && typeof most === "number" && value > most) readings[spec.name] = bad(`At most the ${nameOf(specs, spec.maxField!)}.`);
  }
  if (rule && Object.values(readings).every(isUsable)) for (const [name, message] of Object.entries(rule(values))) readings[name] = refuseField(name, message)[1];
  return { readings, values: Object.values(readings).every(isUsable) ? values : null };
}

const UNUSED: Reading<never> = { state: "disabled", say: "Not used.", offers: [] };

export const isUsable = (reading: Reading<Value>): boolean => reading.value !== undefined || reading.state === "disabled";

/** Return the field of a path ("weights" for "weights[1]"), refused with the message, which names a deeper path. */
function refuseField(path: string, message: string): readonly [name: string, reading: Reading<never>] {
  const name = /^[^.[]+/.exec(path)![0];
  return [name, bad(`${name === path ? capital(message) : `${path} ${message}`}.`)];
}

export const capital = (message: string): string => message[0]!.toUpperCase() + message.slice(1);

/** Name the fields that a result waits for: "Waiting for batch size and epochs." */
function describeWaiting(specs: readonly FieldSpec[], readings: Form["readings"]): string {
  const names = specs.filter((spec) => !isUsable(readings[spec.name]!)).map((spec) => nameOf(specs, spec.name));
  return names.length === 0 ? "" : `Waiting for ${[names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" and ")}.`;
}

/** Return a label as it stands in a sentence: "batch size", but "ε" and "TPR at an FPR". */
function nameOf(specs: readonly FieldSpec[], name: string): string {
  const { label } = specs.find((spec) => spec.name === name)!;
  return /^[A-Z][a-z]/.test(label) ? label[0]!.toLowerCase() + label.slice(1) : label;
}

const pick = (raw: Raw, specs: readonly FieldSpec[]): Raw =>
  Object.fromEntries(specs.filter((s) => raw[s.name] !== undefined).map((s) => [s.name, raw[s.name]!]));

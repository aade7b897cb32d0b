// Convert a form's values to a typed request, checking the type of each.

import type { Value } from "./form";

export type RawValues = Readonly<Record<string, Value | undefined>>;

function wrong(name: string, what: string): never {
  throw new TypeError(`${name} must be ${what}`);
}

export function number(given: RawValues, name: string, otherwise?: number): number {
  const value = given[name] ?? otherwise;
  return typeof value === "number" ? value : wrong(name, "a number");
}

export function numberOrNull(given: RawValues, name: string, otherwise: number | null = null): number | null {
  const value = given[name];
  if (value === undefined) return otherwise;
  return value === null || typeof value === "number" ? value : wrong(name, "a number or nothing");
}

export function numbersOrNull(given: RawValues, name: string): number[] | null {
  const value = given[name] ?? null;
  return value === null || Array.isArray(value) ? value : wrong(name, "numbers or nothing");
}

export function text(given: RawValues, name: string, otherwise?: string): string {
  const value = given[name] ?? otherwise;
  return typeof value === "string" ? value : wrong(name, "text");
}

export function textOrNull(given: RawValues, name: string, otherwise: string | null = null): string | null {
  const value = given[name];
  if (value === undefined) return otherwise;
  return value === null || typeof value === "string" ? value : wrong(name, "text or nothing");
}

export function flag(given: RawValues, name: string, otherwise?: boolean): boolean {
  const value = given[name] ?? otherwise;
  return typeof value === "boolean" ? value : wrong(name, "yes or no");
}

export function choice<W extends string>(given: RawValues, name: string, words: readonly W[], otherwise?: W): W {
  const value = given[name] ?? otherwise;
  return words.find((word) => word === value) ?? wrong(name, `one of ${words.join(", ")}`);
}

/** As `choice`; blank is nothing. */
export function choiceOrNull<W extends string>(given: RawValues, name: string, words: readonly W[], otherwise: W | null = null): W | null {
  const value = given[name];
  return value === undefined ? otherwise : value === null || value === "" ? null : choice(given, name, words);
}

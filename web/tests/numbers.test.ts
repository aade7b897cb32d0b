import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fromQuery, toQuery } from "../src/lib/url-state";
import { parseField } from "../src/lib/form";
import { parseNumber, roundTo, show, showAmount, showInteger, typeset } from "../src/lib/numbers";

const shared = JSON.parse(readFileSync(new URL("../../tests/vectors/numerals.json", import.meta.url), "utf8")) as { cases: { text: string; whole: boolean; value: number | null }[] };

describe("numbers as people write them", () => {
  test.each(shared.cases)("the library reads $text (whole: $whole) as $value", ({ text, whole, value }) => {
    const parsed = parseNumber(text, { integer: whole });
    expect(parsed.ok ? parsed.value : null).toBe(value);
  });
  test("what can be read as two numbers is refused with both", () => {
    const says = (text: string, whole: boolean): string => (parseNumber(text, { integer: whole }) as { error: string }).error;
    expect(says("2.000", true)).toBe("must be written without “.”, which can group digits or begin decimals: write 2000 or 2");
    expect(says("50,000", true)).toContain("write 50000 or 50");
    expect(says("1.500", false)).toContain("write 1500 or 1.5");
    expect(says("2,5", false)).toBe("must be written without a comma: a point begins the decimals, spaces group digits");
  });
  test("typed on the way to a number, nothing reads as another number of more than one digit", () => {
    for (const text of ["50000", "50 000", "1e-6", "0.125", "10^-6"])
      for (let i = 1; i <= text.length; i++) {
        const [so, plain] = [parseNumber(text.slice(0, i)), Number(text.slice(0, i).replace(/ /g, ""))];
        if (so.ok && !Number.isNaN(plain)) expect(so.value).toBe(plain);
      }
  });
  test.each(["1e-6", "1E-6", "10^-6", "10⁻⁶", "0.000001", " .000001 ", "1×10^-6", "1 × 10⁻⁶", "1*10**-6", "1/1000000"])("%s", (text) => {
    const parsed = parseNumber(text);
    expect(parsed.ok && Math.abs(parsed.value / 1e-6 - 1) < 1e-12).toBe(true);
  });
  test.each(["", "abc", "1e", "--1", "1,5", "NaN", "Infinity", "1e999", "1/0", "0x10", "10^", "1 2/3 4/5", "1e-6x"])("refuses %s", (text) => {
    expect(parseNumber(text).ok).toBe(false);
  });
  test("whole numbers", () => {
    expect(parseNumber("50 000", { integer: true })).toEqual({ ok: true, value: 50_000 });
    expect(parseNumber("5e4", { integer: true })).toEqual({ ok: true, value: 50_000 });
    expect(parseNumber("5,00", { integer: true }).ok).toBe(false);
    expect(parseNumber("1.5", { integer: true }).ok).toBe(false);
    expect(parseNumber("1e20", { integer: true }).ok).toBe(false);
  });
});

describe("numbers as they are shown", () => {
  test.each([
    [0.5621, "0.5621"],
    [1e-6, "10⁻⁶"],
    [2.5e-7, "2.5 × 10⁻⁷"],
    [12345, "12\u202f350"],
    [100, "100"],
    [0, "0"],
    [Infinity, "∞"],
    [-0.25, "−0.25"],
    [NaN, "–"],
  ])("%s", (value, text) => {
    expect(show(value)).toBe(text);
  });
  test("a shown power survives copying", () => {
    expect(parseNumber(show(2.5e-7))).toEqual({ ok: true, value: 2.5e-7 });
  });
  test("bounds are rounded outward", () => {
    expect(roundTo(0.72321, 4, "up")).toBe(0.7233);
    expect(roundTo(0.72329, 4, "down")).toBe(0.7232);
    expect(roundTo(99.991, 4, "up")).toBe(100);
    for (let i = 0; i < 500; i++) {
      const x = Math.exp(40 * Math.random() - 20);
      expect(roundTo(x, 4, "up")).toBeGreaterThanOrEqual(x);
      expect(roundTo(x, 4, "down")).toBeLessThanOrEqual(x);
    }
  });
  test("whole numbers keep every digit", () => expect(showInteger(1774123)).toBe("1\u202f774\u202f123"));
  test("sentences are typeset", () => {
    expect(typeset("delta 1e-06 is below 1/N = 2.5e-05.")).toBe("delta 10⁻⁶ is below 1/N = 2.5 × 10⁻⁵.");
    expect(typeset("hash 3e12ab and file1e5x")).toBe("hash 3e12ab and file1e5x");
  });
});

describe("fields", () => {
  const field = { name: "x", label: "X", kind: "real" as const, initial: "", exclusiveMin: 0, exclusiveMax: 1 };
  test("bounds", () => {
    expect(parseField(field, "0.5")).toEqual({ value: 0.5 });
    expect(parseField(field, "0")).toEqual({ error: "must be above 0" });
    expect(parseField(field, "1")).toEqual({ error: "must be below 1" });
    expect(parseField(field, "")).toEqual({ error: "needs a value" });
    expect(parseField({ ...field, optional: true }, "")).toEqual({ value: null });
  });
  test("amounts are kept as written", () => {
    const amount = { name: "x", label: "X", kind: "amount" as const, initial: "" };
    expect(parseField(amount, "0.10")).toEqual({ value: "0.10" });
    for (const wrong of ["2.000", "0,5", "2,000", "10^-6", "1/3", "-1", "1e9999"]) expect(parseField(amount, wrong)).toHaveProperty("error");
  });
  test("lists", () => {
    expect(parseField({ ...field, kind: "list", exclusiveMax: undefined }, "2 1; 1, 3")).toEqual({ value: [2, 1, 1, 3] });
    expect(parseField({ ...field, kind: "list", exclusiveMax: undefined }, "2,5")).toHaveProperty("error");
    expect(parseField({ ...field, kind: "list" }, "0.2 0")).toEqual({ error: "must be above 0" });
  });
});

test("the address carries every value, and refuses another version", () => {
  const raw = { a: "1e-6", b: "x&y=z|", c: "" };
  expect(fromQuery(`?${toQuery(raw)}`)).toEqual({ raw, foreign: null });
  expect(fromQuery("?v=2&a=1")).toEqual({ raw: {}, foreign: "2" });
});

describe("exact amounts", () => {
  test.each([
    ["0", "0"],
    ["4", "4"],
    ["3.99924264", "3.99924264"],
    ["1000000", "1\u202f000\u202f000"],
    ["0.00075736", "7.5736 × 10⁻⁴"],
    ["0.00001", "10⁻⁵"],
    ["0.000000001000000001", "1.000000001 × 10⁻⁹"],
    ["0.0120", "0.0120"],
  ])("%s is shown as %s, with every digit", (text, shown) => expect(showAmount(text)).toBe(shown));
});

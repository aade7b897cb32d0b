import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fromQuery, toQuery } from "../src/lib/url-state";
import { type FieldSpec, readField } from "../src/lib/form";
import { readNumber, roundTo, show, showAmount, showInteger, typeset } from "../src/lib/numbers";

interface Case {
  text: string;
  whole: boolean;
  value: number | null;
  page?: number | null;
}
const shared = JSON.parse(readFileSync(new URL("../../tests/vectors/numerals.json", import.meta.url), "utf8")) as { cases: Case[] };
const read = (text: string, whole = false) => readNumber(text, { integer: whole });

describe("numbers as people write them", () => {
  test.each(shared.cases)("the page reads $text (whole: $whole) as $value, or as $page", ({ text, whole, value, page }) => {
    expect(read(text, whole).value ?? null).toBe(page === undefined ? value : page);
  });
  test.each([
    ["2.000", true, "This reads two ways.", ["2,000", "2"]],
    ["50.000", true, "This reads two ways.", ["50,000", "50"]],
    ["1.234.567", true, "This reads two ways.", ["1,234,567"]],
    ["2.125", true, "This reads two ways.", ["2,125"]],
    ["2.0", true, "Whole numbers only.", ["2"]],
    ["2.5", true, "Whole numbers only.", ["2", "3"]],
    ["60k", true, "Write it out.", ["60,000"]],
    ["2.3M", false, "Write it out.", ["2300000"]],
    ["007", true, "Drop the first zeros.", ["7"]],
    ["2,5", false, "Use a decimal point.", ["2.5"]],
    [",5", false, "Use a decimal point.", [".5"]],
    ["50,000", false, "This reads two ways.", ["50000", "50"]],
    ["1,234.5", false, "Use a decimal point.", ["1234.5"]],
    ["1/3", false, "Write a decimal number.", []],
    ["1e400", false, "Too large.", []],
    ["1e-400", false, "Too small.", []],
    ["10^-400", false, "Too small.", []],
    ["NaN", false, "Not a number.", []],
    ["６０", true, "Not a number.", []],
    ["<b>1", false, "Not a number.", []],
  ])("%s (whole: %s) is refused: %s %j", (text, whole, say, offers) => {
    expect(read(text, whole)).toEqual({ state: "bad", say, offers });
    for (const offer of offers) expect(read(offer, whole).value).toBeDefined();
  });
  test.each([
    ["60000", true, "reads as 60,000"],
    ["50 000", true, "reads as 50,000"],
    ["1e5", true, "reads as 100,000"],
    ["2.000", false, "reads as 2"],
    ["1234.5", false, "reads as 1,234.5"],
  ])("%s (whole: %s) is echoed: %s", (text, whole, say) => expect(read(text, whole)).toMatchObject({ state: "noted", say }));
  test("on the way to a number each text is good, noted or unfinished, and is never read as another", () => {
    const whole = ["50000", "50,000", "1,234,567", "50 000", "1e5"];
    for (const text of [...whole, "1e-6", "0.125", "-0.5", "10^-6", "10**-6", "10⁻⁶", "1.2×10^-6", "1 × 10⁻⁶", ".5", "5e+3"])
      for (let i = 1; i <= text.length; i++) {
        const [so, plain] = [read(text.slice(0, i), whole.includes(text)), Number(text.slice(0, i).replace(/[ ,]/g, ""))];
        expect(so.state, text.slice(0, i)).not.toBe("bad");
        if (so.value !== undefined && !Number.isNaN(plain)) expect(so.value).toBe(plain + 0);
      }
  });
  test("any text is read or refused, and what is offered is read", () => {
    for (let i = 0; i < 20_000; i++) {
      const text = Array.from({ length: 1 + (i % 9) }, () => "0123456789.,eE+-^*×x/⁰⁵⁻ _km"[Math.floor(29 * Math.random())]).join("");
      for (const whole of [false, true]) {
        const { state, value, offers } = read(text, whole);
        expect(value === undefined, text).toBe(state !== "good" && state !== "noted");
        if (value !== undefined) expect(Number.isFinite(value), text).toBe(true);
        for (const offer of offers) expect(read(offer, whole).value, `${text} offers ${offer}`).toBeDefined();
      }
    }
  });
});

describe("numbers as they are shown", () => {
  test.each([
    [0.5621, "0.5621"],
    [1e-6, "10⁻⁶"],
    [2.5e-7, "2.5 × 10⁻⁷"],
    [12345, "12,350"],
    [100, "100"],
    [0, "0"],
    [Infinity, "∞"],
    [-0.25, "−0.25"],
    [NaN, "–"],
  ])("%s", (value, text) => {
    expect(show(value)).toBe(text);
  });
  test("a shown power survives copying", () => {
    expect(readNumber(show(2.5e-7)).value).toBe(2.5e-7);
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
  test("whole numbers keep every digit", () => expect(showInteger(1774123)).toBe("1,774,123"));
  test("sentences are typeset", () => {
    expect(typeset("delta 1e-06 is below 1/N = 2.5e-05.")).toBe("delta 10⁻⁶ is below 1/N = 2.5 × 10⁻⁵.");
    expect(typeset("hash 3e12ab and file1e5x")).toBe("hash 3e12ab and file1e5x");
  });
});

describe("fields", () => {
  const field: FieldSpec = { name: "x", label: "X", kind: "real", initial: "", exclusiveMin: 0, exclusiveMax: 1 };
  test("bounds", () => {
    expect(readField(field, "0.5")).toMatchObject({ state: "good", value: 0.5 });
    for (const begun of ["0", "0.", "0.0", ".0", "0e-5"]) expect(readField(field, begun)).toMatchObject({ state: "unfinished", say: "Above 0." });
    expect(readField(field, "-0.5")).toMatchObject({ state: "bad", say: "Above 0." });
    expect(readField(field, "1")).toMatchObject({ state: "bad", say: "Below 1." });
    expect(readField({ ...field, kind: "integer", exclusiveMax: undefined, max: 50_000 }, "60000")).toMatchObject({ state: "bad", say: "At most 50,000." });
    expect(readField(field, "")).toMatchObject({ state: "empty", say: "Enter a number." });
    expect(readField({ ...field, optional: true }, "")).toMatchObject({ state: "good", value: null });
  });
  test("an offer outside the bounds is not made", () => {
    expect(readField({ ...field, kind: "integer", exclusiveMax: undefined, max: 100 }, "2.000").offers).toEqual(["2"]);
    expect(readField(field, "0,5").offers).toEqual(["0.5"]);
    expect(readField(field, "2,5").offers).toEqual([]);
  });
  test("amounts are kept as written, and no echo stands for a refusal", () => {
    const amount: FieldSpec = { name: "x", label: "X", kind: "amount", initial: "" };
    expect(readField(amount, "0.10").value).toBe("0.10");
    expect(readField(amount, "2.000")).toEqual({ state: "bad", say: "This reads two ways.", offers: ["2000", "2"] });
    for (const wrong of ["0,5", "2,000", "10^-6", "1/3", "-1", "1e9999"]) expect(readField(amount, wrong).value).toBeUndefined();
  });
  test("lists", () => {
    const list: FieldSpec = { ...field, kind: "list", exclusiveMax: undefined };
    expect(readField(list, "2 1; 1, 3").value).toEqual([2, 1, 1, 3]);
    expect(readField(list, "1 2,5").offers).toEqual(["1 2.5"]);
    expect(readField(list, "0.2 0")).toMatchObject({ state: "unfinished", say: "Above 0." });
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
    ["1000000", "1,000,000"],
    ["0.00075736", "7.5736 × 10⁻⁴"],
    ["0.00001", "10⁻⁵"],
    ["0.000000001000000001", "1.000000001 × 10⁻⁹"],
    ["0.0120", "0.0120"],
  ])("%s is shown as %s, with every digit", (text, shown) => expect(showAmount(text)).toBe(shown));
});

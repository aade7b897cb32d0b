import { expect, test } from "vitest";
import type { Budget } from "../src/lib/amounts";
import { listOutlooks } from "../src/lib/refusals";

const budget = (scope: string, available: string): Budget => ({ scope, available: { epsilon: available }, partition: null }) as unknown as Budget;
const charge = (scope: string, amount: string, key: string | null = "k") => ({ scope, key, amount: { epsilon: amount } });

test("the budget with least room refuses, and exact amounts decide", () => {
  const budgets = [budget("a", "0.3"), budget("a/b", "1"), budget("c", "9")];
  const [tight, loose] = listOutlooks([charge("a/b", "0.1"), charge("a/z", "0.04")], budgets);
  expect([tight!.fits, tight!.budget.scope]).toEqual([3, "a"]); // 0.3 / 0.1 is below 3 in floating point
  expect([loose!.fits, loose!.charge.scope]).toEqual([7, "a/z"]);
});

test("only the newest charge of a scope counts, and charges without a cost do not", () => {
  const found = listOutlooks([charge("a", "0.1"), charge("a", "0.5"), charge("a/p", "0"), charge("a/q", "1", null)], [budget("a", "0.4")]);
  expect(found.map((one) => [one.charge.amount.epsilon, one.fits])).toEqual([["0.5", 0]]);
});

test("small and negative amounts are read exactly", () => {
  expect(listOutlooks([charge("a", "1e-6")], [budget("a", "0.000003")])[0]!.fits).toBe(3);
  expect(listOutlooks([charge("a", "1")], [budget("a", "-0.5")])[0]!.fits).toBe(0);
});

test("a budget that takes no charge now has no outlook, nor has anything under it", () => {
  const over = { ...budget("a", "1"), valid_until: "2020-01-01T00:00:00.000000+00:00" };
  const early = { ...budget("b", "1"), valid_from: "2999-01-01T00:00:00.000000+00:00" };
  const open = { ...budget("c", "1"), valid_from: "2020-01-01T00:00:00.000000+00:00", valid_until: "2999-01-01T00:00:00.000000+00:00" };
  const charges = ["a", "a/x", "b", "c"].map((scope) => charge(scope, "0.5"));
  expect(listOutlooks(charges, [over, budget("a/x", "9"), early, open]).map((one) => one.charge.scope)).toEqual(["c"]);
});

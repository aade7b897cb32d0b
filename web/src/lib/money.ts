// Amounts of the ledger: decimal strings by quantity, shown digit for digit.

import { showAmount } from "./numbers";

export type Money = Record<string, string>;

const LETTERS: Record<string, string> = { epsilon: "ε", delta: "δ", rho: "ρ", mu_squared: "μ²" };

export const letter = (name: string): string => LETTERS[name] ?? name.replace(/^rdp_(.+)$/, "D($1)"); // a Renyi divergence at its order

export const words = (money: Money): string => Object.entries(money).map(([name, amount]) => `${letter(name)} ${showAmount(amount)}`).join(", ");

/** Whether a scope lies at or under another; null is the whole ledger. */
export const under = (above: string | null, scope: string): boolean => above === null || `${scope}/`.startsWith(`${above}/`);

export interface Budget {
  scope: string;
  kind: string;
  relation: string;
  privacy_unit: string | null;
  simulation: boolean;
  theorem: string;
  caps: Money;
  reserved: Money;
  spent: Money;
  available: Money;
  promise: Money | null;
  partition: number | null; // the entry that declared it, where a scope bears nothing but in its blocks
}

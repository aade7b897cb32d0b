// Amounts of the ledger: exact decimal strings by quantity.

import { type Bound, show, showAmount } from "./numbers";

export type Amounts = Record<string, string>;

const SYMBOLS: Record<string, string> = { epsilon: "ε", delta: "δ", rho: "ρ", mu_squared: "μ²" };

export const symbolOf = (name: string): string => SYMBOLS[name] ?? name.replace(/^rdp_(.+)$/, "D($1)"); // a Renyi divergence at its order

export const formatAmounts = (amounts: Amounts): string => Object.entries(amounts).map(([name, amount]) => `${symbolOf(name)} ${showAmount(amount)}`).join(", ");

/** Amounts with three digits, for people; a cost rounds up, and what is left rounds down. */
export const summarizeAmounts = (amounts: Amounts, bound: Bound): string => Object.entries(amounts).map(([name, amount]) => `${symbolOf(name)} ${show(Number(amount), 3, bound)}`).join(", ");

/** Whether a scope is another scope or below it; null is the whole ledger. */
export const isWithin = (above: string | null, scope: string): boolean => above === null || `${scope}/`.startsWith(`${above}/`);

export interface Budget {
  scope: string;
  kind: string;
  relation: string;
  privacy_unit: string | null;
  simulation: boolean;
  theorem: string;
  caps: Amounts;
  reserved: Amounts;
  spent: Amounts;
  available: Amounts;
  target_guarantee: Amounts | null;
  requires_certificate: boolean;
  requires_approvals: number; // owners who must approve each charge; 0 if none
  requires_child_budget: boolean; // it takes charges only under a budget below it
  valid_from: string | null; // in UTC
  valid_until: string | null;
  partition: number | null; // index of the entry that declared the partition; charges then count in its blocks alone
}

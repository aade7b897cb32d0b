// What a budget would refuse next, by amounts alone: the ledger itself decides, with costs that it computes.

import { type Amounts, type Budget, isWithin } from "./amounts";

export interface Charge {
  scope: string;
  key: string | null;
  amount: Amounts;
}

export interface Outlook {
  charge: Charge; // the newest of its scope
  fits: number; // how many more of the same fit
  budget: Budget; // the one that refuses the next
  quantity: string;
}

/** Return how often the newest charge of each scope fits again, fewest first; charges without a cost are left out. */
export function listOutlooks(charges: readonly Charge[], budgets: readonly Budget[]): Outlook[] {
  const newest = new Map<string, Charge>();
  for (const charge of charges) if (charge.key !== null) newest.set(charge.scope, charge);
  const now = new Date().toISOString();
  const found = [...newest.values()].flatMap((charge): Outlook[] => {
    const path = budgets.filter((budget) => isWithin(budget.scope, charge.scope));
    if (path.some((budget) => (budget.valid_from ?? "") > now || (budget.valid_until ?? "9") <= now)) return []; // it takes no charge now
    const limits = path
      .filter((budget) => budget.partition === null)
      .flatMap((budget) => Object.entries(charge.amount).flatMap(([quantity, amount]): Outlook[] => {
        const available = budget.available[quantity];
        return Number(amount) > 0 && available !== undefined ? [{ charge, budget, quantity, fits: countFits(available, amount) }] : [];
      }));
    return limits.length > 0 ? [limits.reduce((least, one) => (one.fits < least.fits ? one : least))] : [];
  });
  return found.sort((a, b) => a.fits - b.fits);
}

const PLACES = 30;

/** Return how often an exact decimal amount fits another. */
function countFits(available: string, amount: string): number {
  const [a, b] = [scale(available), scale(amount)];
  return b === 0n ? Infinity : a < 0n ? 0 : Number(a / b);
}

/** Read a decimal as a whole number of its smallest places, without rounding an amount down. */
function scale(text: string): bigint {
  const [mantissa, exponent = "0"] = text.toLowerCase().split("e") as [string, string?];
  const negative = mantissa.startsWith("-");
  const [whole, fraction = ""] = mantissa.replace("-", "").split(".") as [string, string?];
  const shift = PLACES - fraction.length + Number(exponent);
  const digits = BigInt(whole + fraction);
  const value = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift);
  return negative ? -value : value;
}

// When a budget is used up if spending goes on as it did: an estimate, and labelled as one.

const LONGEST = 30; // days that a pace is taken from

export interface Spending {
  day: number; // days from now, so at most 0
  amount: number;
}

export interface Forecast {
  spent: number; // within the window
  window: number; // days
  days: number; // until nothing is left
}

/**
 * From releases in their order, of which older ones may not be there. What was spent at the window's very start lies
 * before it; null where there is too little to go by.
 */
export function forecast(releases: readonly Spending[], left: number): Forecast | null {
  const oldest = releases.find((each) => each.amount > 0)?.day;
  if (oldest === undefined) return null;
  const window = Math.min(LONGEST, -oldest);
  if (window < 1) return null;
  const spent = releases.reduce((sum, each) => (each.day > -window ? sum + each.amount : sum), 0);
  return spent > 0 ? { spent, window, days: (Math.max(left, 0) / spent) * window } : null;
}

/** The day that lies so many days after another, as 2026-05-03. */
export const dayAfter = (now: number, days: number): string => new Date(now + days * 86_400_000).toISOString().slice(0, 10);

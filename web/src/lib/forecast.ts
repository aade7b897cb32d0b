// Estimate when a budget will be used up at the recent rate of spending.

const MAX_WINDOW = 30; // days

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
 * Estimate from releases in chronological order, of which older ones may be missing. Spending at the start of the window
 * does not count; null if there is too little data.
 */
export function forecast(releases: readonly Spending[], left: number): Forecast | null {
  const oldest = releases.find((each) => each.amount > 0)?.day;
  if (oldest === undefined) return null;
  const window = Math.min(MAX_WINDOW, -oldest);
  if (window < 1) return null;
  const spent = releases.reduce((sum, each) => (each.day > -window ? sum + each.amount : sum), 0);
  return spent > 0 ? { spent, window, days: (Math.max(left, 0) / spent) * window } : null;
}

/** Return a date that many days later, as 2026-05-03. */
export const dayAfter = (now: number, days: number): string => new Date(now + days * 86_400_000).toISOString().slice(0, 10);

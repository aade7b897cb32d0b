// The trade-off function: bounds on an attacker's true-positive rate from delta at several epsilons.

export interface Point {
  epsilon: number;
  delta: number;
}

/** Return the largest TPR at an FPR; each point of the profile bounds it from both ends of the curve. */
export function maxTpr(profile: readonly Point[], fpr: number): number {
  return profile.reduce((least, { epsilon, delta }) => {
    const odds = Math.exp(epsilon);
    const early = delta + odds * fpr; // P(A) <= e^epsilon Q(A) + delta
    const late = 1 - (1 - delta - fpr) / odds; // the same for the complement, with the data sets exchanged
    return Math.min(least, early, fpr <= 1 - delta ? late : 1);
  }, 1);
}

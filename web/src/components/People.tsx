const [COLUMNS, SPACING] = [50, 8];

/** 1,000 people as dots: those whom guessing finds, those whom the best attack finds besides, and the rest. */
export function People({ guessed, found, says }: { guessed: number; found: number; says: string }) {
  const dots = (from: number, to: number): string =>
    Array.from({ length: to - from }, (_, i) => `M${((from + i) % COLUMNS) * SPACING + 4} ${Math.floor((from + i) / COLUMNS) * SPACING + 4}h0`).join("");
  return (
    <svg class="people" viewBox={`0 0 ${COLUMNS * SPACING} ${(1000 / COLUMNS) * SPACING}`} role="img" aria-label={says}>
      <path class="safe" d={dots(found, 1000)} />
      <path class="found" d={dots(guessed, found)} />
      <path class="guessed" d={dots(0, guessed)} />
    </svg>
  );
}

import type { ComponentChildren } from "preact";

type Look = "holds" | "fails" | "cannot";
const LOOKS: Record<string, Look> = { Holds: "holds", "Would hold": "holds", "Does not hold": "fails" };
const ICONS: Record<Look, string> = { holds: "M16 31l10 10 19-21", fails: "M19 19l22 22M41 19L19 41", cannot: "M22 24a8 8 0 1 1 11.6 7.2C31 32.6 30 34 30 37M30 43v5" };

/** Return the verdict of a verified report in a few words. */
export function nameVerdict(status: string, simulation: boolean): string {
  if (status === "failed") return "Does not hold";
  return status === "not checked" ? "Cannot tell" : simulation ? "Would hold" : "Holds";
}

/** A verdict in large letters, told apart by color, shape and border, and what it rests on. */
export function Answer({ word, children }: { word: string; children: ComponentChildren }) {
  const look = LOOKS[word] ?? "cannot";
  return (
    <section class={`card answer ${look}`}>
      <svg viewBox="0 0 60 60" aria-hidden="true">
        {look === "cannot" ? <circle class="ring" cx="30" cy="30" r="28" /> : look === "fails" ? <path class="solid" d="M18 1h24l17 17v24L42 59H18L1 42V18z" /> : <circle cx="30" cy="30" r="30" />}
        <path d={ICONS[look]} />
      </svg>
      <h2>{word}</h2>
      <div>{children}</div>
    </section>
  );
}

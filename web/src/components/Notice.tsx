import type { ComponentChildren } from "preact";

const MARKS = { good: "✓", weak: "△", void: "✕", info: "i" } as const;

/** A sentence with a grade that is told by shape and word, not by colour alone. */
export function Notice({ grade, children }: { grade: keyof typeof MARKS; children: ComponentChildren }) {
  return (
    <p class={`notice ${grade}`}>
      <span class="mark" aria-hidden="true">
        {MARKS[grade]}
      </span>
      <span>{children}</span>
    </p>
  );
}

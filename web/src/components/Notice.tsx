import type { ComponentChildren } from "preact";

const ICONS = { good: "✓", weak: "△", void: "✕", info: "i" } as const;

/** A sentence with a grade that is told by shape and word, not by colour alone. */
export function Notice({ grade, children }: { grade: keyof typeof ICONS; children: ComponentChildren }) {
  return (
    <p class={`notice ${grade}`}>
      <span class="mark" aria-hidden="true">
        {ICONS[grade]}
      </span>
      <span>{children}</span>
    </p>
  );
}

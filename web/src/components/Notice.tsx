import type { ComponentChildren } from "preact";

const ICONS = { good: "✓", weak: "△", void: "✕", info: "i" } as const;

/** A sentence with a grade, marked by an icon as well as by color. */
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

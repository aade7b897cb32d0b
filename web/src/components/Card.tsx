import type { ComponentChildren } from "preact";

/** A section with a title; `screen` cards are not printed. */
export function Card({ title, children, screen }: { title?: ComponentChildren; children: ComponentChildren; screen?: boolean }) {
  return (
    <section class={screen ? "card screen" : "card"}>
      {title && <h2>{title}</h2>}
      {children}
    </section>
  );
}

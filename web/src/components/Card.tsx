import type { ComponentChildren } from "preact";

/** `screen` cards are left out in print. */
export function Card({ title, children, screen }: { title?: ComponentChildren; children: ComponentChildren; screen?: boolean }) {
  return (
    <section class={screen ? "card screen" : "card"}>
      {title && <h2>{title}</h2>}
      {children}
    </section>
  );
}

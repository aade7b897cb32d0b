import type { ComponentChildren } from "preact";

/** A link to a page of the docs; embedded calculators hide it. */
export function LearnLink({ page, children }: { page: string; children: ComponentChildren }) {
  return (
    <a class="learn" href={`/docs/learn/${page}.html`} target="_blank" rel="noopener">
      {children}
    </a>
  );
}

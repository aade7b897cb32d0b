import type { ComponentChildren } from "preact";

/** A page of the docs to learn from; the server has them, an embed has not. */
export function LearnLink({ page, children }: { page: string; children: ComponentChildren }) {
  return (
    <a class="learn" href={`/docs/learn/${page}.html`} target="_blank" rel="noopener">
      {children}
    </a>
  );
}

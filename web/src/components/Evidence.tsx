import type { ComponentChildren } from "preact";
import type { EvidenceKindsModel } from "../lib/openapi";

/** The three kinds of evidence, told apart by color, shape and border; what is contradicted leads. */
export function Evidence({ kinds, author = "Curator’s word" }: { kinds: EvidenceKindsModel; author?: string }) {
  return (
    <div class="kinds">
      <Kind look="recomputed" title="Recomputed" lines={kinds.recomputed} wrong={kinds.contradicted}>
        <circle cx="10" cy="10" r="10" />
        <path d="M5 10.4 8.6 14 15 6.6" />
      </Kind>
      <Kind look="attested" title={author} lines={kinds.attested}>
        <rect x="1" y="1" width="18" height="18" rx="3" />
        <path d="M5 15l1-4 7-7 3 3-7 7z" />
      </Kind>
      <Kind look="unknown" title="Unknown" lines={kinds.unknown}>
        <circle cx="10" cy="10" r="8.9" />
        <path d="M7.4 8a2.6 2.6 0 1 1 3.8 2.3c-.9.5-1.2.9-1.2 1.9M10 14v1.7" />
      </Kind>
    </div>
  );
}

function Kind({ look, title, lines, wrong = [], children }: { look: string; title: string; lines: readonly string[]; wrong?: readonly string[]; children: ComponentChildren }) {
  return (
    <section class={`kind ${look}`}>
      <h3>
        <svg viewBox="0 0 20 20" aria-hidden="true">
          {children}
        </svg>
        {title}
        <span class="count">{wrong.length > 0 ? `${wrong.length} ${wrong.length === 1 ? "fails" : "fail"}` : lines.length}</span>
      </h3>
      <ul>
        {wrong.map((line) => (
          <li key={line} class="wrong">
            ✕ {line}
          </li>
        ))}
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
        {lines.length + wrong.length === 0 && <li>Nothing</li>}
      </ul>
    </section>
  );
}

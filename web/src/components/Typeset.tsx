import type { ComponentChildren } from "preact";
import { typeset as inText } from "../lib/numbers";

/**
 * A sentence of the library, typeset: what characters can write is written in them, and a power of e that is no whole number,
 * which has none, is raised. It is read aloud and copied as e^0.7229.
 */
export function typeset(sentence: string): ComponentChildren {
  const parts = inText(sentence).split(/\be\^(\d+\.\d+)/);
  if (parts.length === 1) return parts[0];
  return parts.map((part, i) =>
    i % 2 === 0 ? (
      part
    ) : (
      <>
        e<span class="hidden">^</span>
        <sup>{part}</sup>
      </>
    ),
  );
}

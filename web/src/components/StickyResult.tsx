import type { ComponentChildren } from "preact";

/** On a phone the form comes first: this keeps the result visible while typing, and scrolls to it. */
export function StickyResult({ children }: { children: ComponentChildren }) {
  const scrollToResult = (event: Event): void => (event.currentTarget as HTMLElement).closest(".calculator")!.querySelector(".results")!.scrollIntoView();
  return (
    <button type="button" class="peek" onClick={scrollToResult}>
      {children} <span aria-hidden="true">↓</span>
      <span class="hidden">, go to the result</span>
    </button>
  );
}

import type { ComponentChildren } from "preact";

/** On a phone the form comes first: this keeps the answer in sight while one types, and leads to it. */
export function StickyResult({ children }: { children: ComponentChildren }) {
  const lead = (event: Event): void => (event.currentTarget as HTMLElement).closest(".calculator")!.querySelector(".results")!.scrollIntoView();
  return (
    <button type="button" class="peek" onClick={lead}>
      {children} <span aria-hidden="true">↓</span>
      <span class="hidden">, go to the result</span>
    </button>
  );
}

import type { ComponentChildren } from "preact";

/** The closed form next to the proven bound, each in the color of its number. */
export function Formulas({ quoted, proven }: { quoted: ComponentChildren; proven: ComponentChildren }) {
  return (
    <div class="formulas">
      <div class="quoted">
        <h3>Closed form</h3>
        {quoted}
      </div>
      <div class="proven">
        <h3>Proven bound</h3>
        {proven}
      </div>
    </div>
  );
}

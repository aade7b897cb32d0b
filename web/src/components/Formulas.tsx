import type { ComponentChildren } from "preact";

/** The closed form next to the certified bound, each in the color of its number. */
export function Formulas({ quoted, proven }: { quoted: ComponentChildren; proven: ComponentChildren }) {
  return (
    <div class="formulas">
      <div class="quoted">
        <h3>Closed form</h3>
        {quoted}
      </div>
      <div class="proven">
        <h3>Certified bound</h3>
        {proven}
      </div>
    </div>
  );
}

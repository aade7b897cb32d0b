import type { ComponentChildren } from "preact";

/** The formula that people quote beside what is worked out here, each in the colour of its number. */
export function Formulas({ quoted, proven }: { quoted: ComponentChildren; proven: ComponentChildren }) {
  return (
    <div class="formulas">
      <div class="quoted">
        <h3>What people quote</h3>
        {quoted}
      </div>
      <div class="proven">
        <h3>What is worked out here</h3>
        {proven}
      </div>
    </div>
  );
}

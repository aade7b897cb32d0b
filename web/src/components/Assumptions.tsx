import { type Message, sentence } from "../lib/messages";

/** What must be true of the run for the number above to hold. */
export function Assumptions({ lines }: { lines: readonly Message[] }) {
  return lines.length === 0 ? null : <p class="method">It holds if {lines.map(sentence).join("; ")}.</p>;
}

import { type Message, sentence } from "../lib/messages";

/** The assumptions of the bound above. */
export function Assumptions({ lines }: { lines: readonly Message[] }) {
  return lines.length === 0 ? null : <p class="method">Assumptions: {lines.map(sentence).join("; ")}.</p>;
}

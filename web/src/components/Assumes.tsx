/** What must be true of the run for the number above to hold. */
export function Assumes({ lines }: { lines: readonly string[] }) {
  return lines.length === 0 ? null : <p class="method">It holds if {lines.join("; ")}.</p>;
}

/** A note next to the browser's bound until the server's arrives. */
export function ProvisionalNote({ when }: { when: boolean }) {
  return when ? <em class="refining">preliminary bound, being refined…</em> : null;
}

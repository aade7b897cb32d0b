/** Said beside a bound that the browser worked out while the server's is on its way. */
export function ProvisionalNote({ when }: { when: boolean }) {
  return when ? <em class="refining">a quick bound, being refined…</em> : null;
}

/** A link from a field to the page of the docs that explains it; embedded calculators hide it. */
export function FieldHelpLink({ page, label }: { page: string; label: string }) {
  return (
    <a class="why" href={`/docs/${page}`} target="_blank" rel="noopener" title="What is this?">
      <span class="hidden">What is this, {label}</span>?
    </a>
  );
}

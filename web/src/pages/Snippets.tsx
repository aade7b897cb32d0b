import { Copy } from "../components/Copy";
import { toQuery } from "../lib/url-state";
import type { FieldSpec, Raw } from "../lib/form";
import { elementSnippet, fileSnippet, frameSnippet } from "../lib/snippets";

/** The two ways to put a calculator on another page, with the values that stand here. */
export function Snippets({ name, specs, raw }: { name: "federated" | "queries"; specs: readonly FieldSpec[]; raw: Raw }) {
  const element = (): string => elementSnippet(location.origin, name, specs, raw);
  const frame = (): string => frameSnippet(location.origin, name, toQuery(raw));
  const file = (): string => fileSnippet(name, specs, raw);
  return (
    <details>
      <summary>Put this calculator on another page</summary>
      <p>
        <b>As an element</b> it computes in the reader's browser and sends nothing.
      </p>
      <pre tabIndex={0}>{element()}</pre>
      <Copy label="Copy custom element" text={element} />
      <p>
        <b>As a frame</b> it asks this server, and grows with what it shows; without the script it keeps its height and scrolls. Neither sets a cookie.
      </p>
      <pre tabIndex={0}>{frame()}</pre>
      <Copy label="Copy iframe" text={frame} />
      <p>
        <b>As one file</b> it needs no server at all.
      </p>
      <pre tabIndex={0}>{file()}</pre>
      <Copy label="Copy command" text={file} />
    </details>
  );
}

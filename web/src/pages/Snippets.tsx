import { Copy } from "../components/Copy";
import { toQuery } from "../lib/url-state";
import type { FieldSpec, Raw } from "../lib/form";
import { elementSnippet, fileSnippet, frameSnippet } from "../lib/snippets";

/** Snippets that embed a calculator in another page, with the form's values. */
export function Snippets({ name, specs, raw }: { name: "federated" | "queries"; specs: readonly FieldSpec[]; raw: Raw }) {
  const element = (): string => elementSnippet(location.origin, name, specs, raw);
  const frame = (): string => frameSnippet(location.origin, name, toQuery(raw));
  const file = (): string => fileSnippet(name, specs, raw);
  return (
    <details>
      <summary>Embed this calculator</summary>
      <p>
        <b>As an element</b>: computes in the reader's browser and sends nothing.
      </p>
      <pre tabIndex={0}>{element()}</pre>
      <Copy label="Copy custom element" text={element} />
      <p>
        <b>As a frame</b>: uses this server and resizes to its content; without the script it scrolls. Neither sets a cookie.
      </p>
      <pre tabIndex={0}>{frame()}</pre>
      <Copy label="Copy iframe" text={frame} />
      <p>
        <b>As one file</b>: needs no server.
      </p>
      <pre tabIndex={0}>{file()}</pre>
      <Copy label="Copy command" text={file} />
    </details>
  );
}

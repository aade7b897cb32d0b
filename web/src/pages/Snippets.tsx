import { Copy } from "../components/bits";
import { toQuery } from "../lib/address";
import type { Raw } from "../lib/form";

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

/** The two ways to put a calculator on another page, with the values that stand here. */
export function Snippets({ name, raw }: { name: "federated" | "queries"; raw: Raw }) {
  const attributes = Object.entries(raw)
    .filter(([, text]) => text !== "")
    .map(([key, text]) => `${key.replaceAll("_", "-")}="${escape(text)}"`)
    .join(" ");
  const element = () =>
    `<script src="${location.origin}/embed/epsilog-embed.js"></script>\n<epsilog-${name} ${attributes}></epsilog-${name}>`;
  const frame = () =>
    `<iframe src="${escape(`${location.origin}/embed/${name}?${toQuery(raw)}`)}" title="epsilog ${name} calculator" width="100%" height="900" loading="lazy"></iframe>`;
  return (
    <details>
      <summary>Put this calculator on another page</summary>
      <p>
        The element computes in the reader's browser and sends nothing. The frame asks this server. Neither sets a cookie.
      </p>
      <div class="buttons">
        <Copy label="Copy custom element" text={element} />
        <Copy label="Copy iframe" text={frame} />
      </div>
      <pre tabIndex={0}>{element()}</pre>
      <p>
        Without any server: <code>epsilog embed {name} &gt; calculator.html</code>
      </p>
    </details>
  );
}

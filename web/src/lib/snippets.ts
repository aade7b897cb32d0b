// Snippets that embed a calculator in other pages, and the message with a frame's height.

import type { FieldSpec, Raw } from "./form";

/** Sent by a frame to the embedding page; holds only a number. */
export interface HeightMessage {
  epsilog: "height";
  v: 1;
  height: number; // CSS pixels
}

const escape = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

/** Return the custom element with every value, defaults included, and each blank that is not a default. */
export function elementSnippet(origin: string, name: string, specs: readonly FieldSpec[], raw: Raw): string {
  const attributes = specs
    .filter((spec) => (raw[spec.name] ?? spec.initial) !== "" || spec.initial !== "")
    .map((spec) => ` ${spec.name.replaceAll("_", "-")}="${escape(raw[spec.name] ?? spec.initial)}"`)
    .join("");
  return `<script src="${origin}/embed/epsilog-embed.js"></script>\n<epsilog-${name}${attributes}></epsilog-${name}>`;
}

const quoteForShell = (text: string): string => (/^[\w.,+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Return the command that writes the calculator to one file, with the form's values. */
export function fileSnippet(name: string, specs: readonly FieldSpec[], raw: Raw): string {
  const changed = specs.filter((spec) => spec.omitted !== undefined || (raw[spec.name] ?? spec.initial) !== spec.initial);
  return ["epsilog embed", name, ...changed.map((spec) => quoteForShell(`${spec.name}=${raw[spec.name]}`)), "> calculator.html"].join(" ");
}

// Runs on the embedding page: accepts messages from its own frames only, and limits the height.
const FIT =
  'addEventListener("message",e=>{if(e.data?.epsilog!=="height"||!(e.data.height>0))return;' +
  'for(const f of document.querySelectorAll("iframe[data-epsilog]"))' +
  "if(e.source===f.contentWindow&&e.origin===new URL(f.src).origin)f.height=Math.min(9000,Math.ceil(e.data.height))})";

export function frameSnippet(origin: string, name: string, query: string): string {
  const source = escape(`${origin}/embed/${name}?${query}`);
  const limits = 'sandbox="allow-scripts allow-same-origin allow-popups allow-popups-to-escape-sandbox"';
  const look = 'width="100%" height="900" style="border:0" loading="lazy"';
  return `<iframe data-epsilog src="${source}" title="epsilog ${name} calculator" ${limits} ${look}></iframe>\n<script>${FIT}</script>`;
}

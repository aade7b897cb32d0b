import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const WHOLE = new URL("../src/epsilog/terms/en.json", import.meta.url).pathname;

// Messages that stand beside the first number of a page; the pages load all others once one is to be shown.
const FIRST = /^text$|^(calculator|loader|delta|queries|classic-formula|compare|better)\/|^page\/(found|hardly|nearly|guessing)/;

/** The catalogue of messages in two parts, of which the second is loaded apart, or left out. */
export function splitMessages({ others = true } = {}): Plugin {
  const catalogue = Object.entries<string>(JSON.parse(readFileSync(WHOLE, "utf8")));
  return {
    name: "messages",
    resolveId: (id) => (/^messages:(first|others)$/.test(id) ? `\0${id}` : null),
    load(id) {
      const part = /^\0messages:(first|others)$/.exec(id)?.[1];
      return part ? `export default ${JSON.stringify(Object.fromEntries(catalogue.filter(([name]) => (part === "first" ? FIRST.test(name) : others && !FIRST.test(name)))))}` : null;
    },
  };
}

/** The whole catalogue at once, for a file that loads nothing. */
export const wholeMessages = { "messages:first": WHOLE, "messages:others": WHOLE };

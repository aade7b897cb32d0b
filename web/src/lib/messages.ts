/** A message of the API: an identifier of the catalog, with its parameters; or a sentence. */
import first from "messages:first";
import { bound, left, near } from "./quantities";
import { show, showInteger, typeset as inText } from "./numbers";

export type Message = string | readonly [string, Readonly<Record<string, unknown>>];

const SENTENCES: Record<string, string> = { ...first };
const IDENTIFIER = /^[a-z-]+\/[\w@.-]+$/;
let others: Promise<void> | null = null;
let waits = true; // for the other part of the catalogue
const watchers = new Set<() => void>();

/** Load the part of the catalogue that few pages show at first; whoever watches draws again. */
export function loadMessages(): Promise<void> {
  others ??= import("messages:others")
    .then(
      (found) => void Object.assign(SENTENCES, found.default),
      () => {}, // identifiers stand for their sentences
    )
    .then(() => {
      waits = false;
      for (const draw of watchers) draw();
    });
  return others;
}

/** Call `draw` when sentences are there that were not; return how to stop. */
export function watchMessages(draw: () => void): () => void {
  watchers.add(draw);
  return () => void watchers.delete(draw);
}

/** Return the pattern of a message; nothing while it is being loaded. */
function patternOf(id: string): string {
  const found = SENTENCES[id];
  if (found !== undefined || !waits || !IDENTIFIER.test(id)) return found ?? id;
  void loadMessages();
  return "";
}

const MAX_LOG = 700; // of a displayed factor

const number = (value: unknown): number => (value === "inf" ? Infinity : Number(value));

const KINDS: Readonly<Record<string, (value: unknown) => string>> = {
  upper: (value) => bound(number(value)),
  lower: (value) => left(number(value)),
  percent: (value) => `${show(100 * number(value), 3, "up")}%`,
  per_thousand: (value) => showInteger(Math.min(1000, Math.ceil(1000 * (number(value) + 1e-9)))),
  factor: (value) => (number(value) < MAX_LOG ? show(Math.exp(number(value)), 3, "up") : "more than 1e300"),
  estimate: (value) => near(number(value)),
  count: (value) => showInteger(number(value)),
  exact: (value) => (typeof value === "number" ? show(value, 12) : String(value)),
  message: (value) => (Array.isArray(value) && !isMessage(value) ? value.map((one) => sentence(one as Message)).join("; ") : sentence(value as Message)),
  text: (value) => String(value),
};

const isMessage = (value: readonly unknown[]): boolean => value.length === 2 && typeof value[1] === "object" && !Array.isArray(value[1]);

/** Return the sentence of a message, from the library's own catalog (terms/messages.py). */
export function sentence(message: Message): string {
  if (typeof message === "string") return patternOf(message);
  const [id, params] = message;
  return patternOf(id).replace(/\{(\w+):(\w+)\}/g, (_, name: string, kind: string) => (KINDS[kind] ?? String)(params[name]));
}

/** Return the sentence of a message, with typeset numbers. */
export const typeset = (message: Message): string => inText(sentence(message));

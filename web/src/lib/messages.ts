/** Messages as the API sends them: an identifier of the catalogue, with its parameters if it has some; or a sentence. */
import catalogue from "../../../src/epsilog/terms/en.json";
import { show } from "./numbers";

export type Message = string | readonly [string, Readonly<Record<string, unknown>>];

const SENTENCES: Readonly<Record<string, string>> = catalogue;

const KINDS: Readonly<Record<string, (value: unknown) => string>> = {
  upper: (value) => show(Number(value), 7, "up"),
  lower: (value) => show(Number(value), 7, "down"),
  estimate: (value) => show(Number(value), 3),
  exact: (value) => String(value),
  message: (value) => (Array.isArray(value) && !isMessage(value) ? value.map((one) => sentence(one as Message)).join("; ") : sentence(value as Message)),
  text: (value) => String(value),
};

const isMessage = (value: readonly unknown[]): boolean => value.length === 2 && typeof value[1] === "object" && !Array.isArray(value[1]);

/** The sentence of a message; the library makes the same from the same catalogue (terms/messages.py). */
export function sentence(message: Message): string {
  if (typeof message === "string") return SENTENCES[message] ?? message;
  const [id, params] = message;
  return (SENTENCES[id] ?? id).replace(/\{(\w+):(\w+)\}/g, (_, name: string, kind: string) => (KINDS[kind] ?? String)(params[name]));
}

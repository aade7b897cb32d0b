import { useEffect, useReducer } from "preact/hooks";
import { watchMessages } from "./messages";

/** Draw a tree again, from its root, when more of the catalogue of messages is there. */
export function useMessages(): void {
  const [, draw] = useReducer((n: number, _: void) => n + 1, 0);
  useEffect(() => watchMessages(() => draw()), []);
}

// A worker that runs the standalone checker: the file that the server offers for download, unchanged.

import { type Check, CHECKERS, examine } from "./certificate";
import { sha256Of } from "./hash";

const [path] = CHECKERS;
const module = import(/* @vite-ignore */ path);
const digest = fetch(path)
  .then(async (found) => sha256Of(await found.blob()))
  .catch(() => null); // without HTTPS

addEventListener("message", async ({ data }: MessageEvent<Uint8Array>) => {
  try {
    const { judge } = await module;
    postMessage({ ...examine(data, judge), checker: await digest } satisfies Check);
  } catch {
    postMessage(null); // the checker could not be loaded
  }
});

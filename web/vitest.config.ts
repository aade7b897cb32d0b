import { defineConfig } from "vitest/config";
import { wholeMessages } from "./messages.plugin";

// One process and one world for all files, none of which changes what it shares: to start a world for each took as much
// as the tests themselves.
export default defineConfig({
  resolve: { alias: wholeMessages },
  define: { ELEMENT: "false" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  test: { include: ["tests/**/*.test.ts"], environment: "node", pool: "threads", isolate: false, testTimeout: 60_000 },
});

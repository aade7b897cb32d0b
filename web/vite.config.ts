import { defineConfig } from "vite";
import { splitMessages } from "./messages.plugin";

const LIB = "api|types|token|numbers|messages|use-messages|quantities|tradeoff|url-state|use-query|form";
const COMPONENTS = "ErrorNotice|Notice|LiveRegion|Field";
const SHARED = new RegExp(`preload-helper|node_modules.preact|messages:first|/src/(app\\.css|lib/(${LIB})\\.ts|components/(${COMPONENTS})\\.tsx)$`);

// Two pages: the application, and the one that other sites may frame. Paths are absolute: /assets/name-hash.js.
export default defineConfig({
  define: { ELEMENT: "false" },
  plugins: [splitMessages()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/epsilog/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rolldownOptions: {
      input: ["index.html", "embed.html"],
      // What every page needs is one file: together it is smaller than apart.
      output: { codeSplitting: { groups: [{ name: "shared", test: SHARED }] } },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/checker": "http://127.0.0.1:8080" }, fs: { allow: [".."] } },
});

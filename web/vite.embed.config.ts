import { defineConfig } from "vite";
import { wholeMessages } from "./messages.plugin";

// The custom elements as one classic script: it uses the browser accountant and fetches nothing.
export default defineConfig({
  resolve: { alias: wholeMessages },
  define: { ELEMENT: "true" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  publicDir: false,
  build: {
    outDir: "../src/epsilog/server/static/embed",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/embed/element.tsx", formats: ["iife"], name: "epsilogEmbed", fileName: () => "epsilog-embed.js" },
  },
});

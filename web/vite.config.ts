import { defineConfig } from "vite";

// Two pages: the application, and the one that other sites may frame. Paths are absolute: /assets/name-hash.js.
export default defineConfig({
  define: { ELEMENT: "false" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/epsilog/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    rollupOptions: { input: ["index.html", "embed.html"] },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/checker": "http://127.0.0.1:8080" }, fs: { allow: [".."] } },
});

import { defineConfig } from "vite";
import { splitMessages } from "./messages.plugin";

// The notebook's sliders as one ES module: it uses the browser accountant, asks the kernel, and fetches nothing.
export default defineConfig({
  plugins: [splitMessages({ others: false })], // it shows no other message
  publicDir: false,
  build: {
    outDir: "../src/epsilog/server/static/notebook",
    emptyOutDir: true,
    target: "es2022",
    lib: { entry: "src/embed/notebook.ts", formats: ["es"], fileName: () => "epsilog-notebook.js" },
    rolldownOptions: { output: { minify: true, codeSplitting: false } }, // Vite leaves the white space of ES libraries
  },
});

// Built by kite-api's build.rs; `npm run dev` serves it for work on it.
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { createRequire } from "node:module";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import optimizeLocales from "@react-aria/optimize-locales-plugin";
import { defineConfig, type Plugin } from "vite";

/** The running demo that `npm run dev` passes API requests on to. */
const API = process.env["KITE_API"] ?? "http://127.0.0.1:8080";

const COMPRESSIBLE = /\.(js|css|html|svg|json|txt)$/;

/** Writes `.br` and `.gz` beside every file, once, instead of at each request. */
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    writeBundle({ dir = "dist" }) {
      for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
        if (!COMPRESSIBLE.test(name)) continue;
        const file = join(dir, name);
        const text = readFileSync(file);
        const params = {
          [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
          [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
        };
        writeFileSync(`${file}.br`, brotliCompressSync(text, { params }));
        writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
      }
    },
  };
}

/** The build of the router without what it says to developers only: its package names the
 * other one for everybody. */
const router = createRequire(import.meta.url)
  .resolve("react-router")
  .replace(/development\/index\.m?js$/, "production/index.mjs");

export default defineConfig(async ({ command }) => ({
  resolve: { alias: command === "build" ? [{ find: /^react-router$/, replacement: router }] : [] },
  // React's plugin is for the dev server alone: esbuild compiles JSX by itself.
  plugins: [
    ...(command === "serve" ? [(await import("@vitejs/plugin-react")).default()] : []),
    {
      ...optimizeLocales.vite({ locales: ["en-US", "ko-KR"] }),
      enforce: "pre" as const,
      apply: "build" as const,
    },
    precompress(),
  ],
  esbuild: { jsx: "automatic" as const, legalComments: "none" as const },
  // noVNC waits at its top level, which the default target does not know.
  optimizeDeps: { esbuildOptions: { target: "es2022" } },
  build: {
    target: "es2022",
    cssTarget: "chrome123",
    // The names of hashed files begin so; they are served as immutable.
    assetsDir: "assets",
    // No inline data: the content security policy forbids it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Takes some seconds more than esbuild, and 8 KB off what everybody loads first.
    minify: "terser" as const,
    terserOptions: { module: true, compress: { passes: 2 }, format: { comments: false } },
    // A smaller file costs more by its request and headers than by what is in it.
    rollupOptions: { output: { experimentalMinChunkSize: 4000 } },
  },
  server: { proxy: { "/api": { target: API, changeOrigin: true, ws: true } } },
}));

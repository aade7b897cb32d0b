// Writes each script and style sheet of the built pages once more, compressed with Brotli: NAME.br beside NAME.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync } from "node:zlib";

const FOLDER = "../src/epsilog/server/static/assets";

for (const name of readdirSync(FOLDER)) writeFileSync(`${FOLDER}/${name}.br`, brotliCompressSync(readFileSync(`${FOLDER}/${name}`)));

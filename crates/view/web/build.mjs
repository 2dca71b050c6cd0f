// Builds dist/ from src/; with --check, says whether what is committed there is what a build gives.
import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const LIMIT_BYTES = 150_000;

const built = await build({
    absWorkingDir: here,
    entryPoints: { viewer: "src/main.ts" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    write: false,
    outdir: "dist",
});
const style = await build({
    absWorkingDir: here,
    entryPoints: { viewer: "src/viewer.css" },
    minify: true,
    charset: "utf8",
    write: false,
    outdir: "dist",
});
const files = new Map([
    ["viewer.js", Buffer.from(built.outputFiles[0].contents)],
    ["viewer.css", Buffer.from(style.outputFiles[0].contents)],
    ["index.html", readFileSync(join(here, "src/index.html"))],
]);

const size = files.get("viewer.js").length;
if (size > LIMIT_BYTES) {
    console.error(`viewer.js has ${size} bytes, at most ${LIMIT_BYTES} are allowed`);
    process.exit(1);
}
if (process.argv.includes("--check")) {
    for (const [name, bytes] of files) {
        let committed = Buffer.alloc(0);
        try {
            committed = readFileSync(join(here, "dist", name));
        } catch {
            // It is said below.
        }
        if (!committed.equals(bytes)) {
            console.error(`dist/${name} is not what src/ builds to: run \`make web\` and commit it`);
            process.exitCode = 1;
        }
    }
} else {
    mkdirSync(join(here, "dist"), { recursive: true });
    for (const [name, bytes] of files) writeFileSync(join(here, "dist", name), bytes);
    console.log([...files].map(([name, bytes]) => `${name} ${bytes.length} bytes`).join(", "));
}

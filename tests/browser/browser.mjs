// One browser for many scripts: prints where it listens, and ends with its standard input.
import { chromium } from "playwright-core";
import { FLAGS } from "./flags.mjs";

const server = await chromium.launchServer({ executablePath: process.argv[2], args: FLAGS, host: "127.0.0.1" });
process.stdout.write(`${server.wsEndpoint()}\n`);
process.stdin.on("close", () => server.close().then(() => process.exit(0)));
process.stdin.resume();

// Runs scripts of this folder in one browser: each line of the standard input names one, and what it wants; a line says what it found.
import { createInterface } from "node:readline";
import { begin, end } from "./common.mjs";

let number = 0;
let late;
process.on("unhandledRejection", (error) => (late ??= error));
for await (const line of createInterface({ input: process.stdin })) {
    const { script, wanted } = JSON.parse(line);
    begin(wanted);
    let failed;
    late = undefined;
    try {
        // A module runs when it is imported first: each time under another address.
        await import(`./${script}?${++number}`);
    } catch (error) {
        failed = String(error?.stack ?? error);
    }
    // A promise that was not waited for has been rejected by now, if it is.
    await new Promise(setImmediate);
    if (late) failed ??= String(late?.stack ?? late);
    process.stdout.write(`${JSON.stringify(await end(failed))}\n`);
}
// It ends with its input, also if the tests are killed.
process.exit(0);

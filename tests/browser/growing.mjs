// A file that grows while it is looked at: what is shown stays as it was, and opened again it has what came since.
import { appendFileSync, readFileSync } from "node:fs";
import { drawn, exact, follows, launch, open, set, state, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
const title = page.locator("h1");
const notes = () => page.locator(".ffv-warnings li").allTextContents();
const scan = async () => ({ display: (await state(page)).scan.display, query: (await state(page)).scan.query, ...(await drawn(page, "scan")) });
await exact(page);
await set(page, { "scan.display.auto": false, "scan.display.low": 0, "scan.display.high": 300 });
await exact(page);
const found = { before: await scan(), notes: [await notes()] };
appendFileSync(wanted.path, readFileSync(wanted.rest));
await title.click();
await follows(page, "scan", () => page.keyboard.press("d"));
found.grown = await scan();
found.words = await page.locator(".ffv-trouble:visible, .ffv-said:visible").allTextContents();
await page.locator(".ffv-menu > summary", { hasText: "Open" }).click();
await page.locator(".ffv-files button").first().click();
await until(notes, (now) => now.join() !== found.notes[0].join());
await exact(page);
found.notes.push(await notes());
found.again = await scan();
tell({ ...found, ...seen });

// Lengths and places in units that differ between rows and columns.
import { readFileSync } from "node:fs";
import { exact, launch, open, place, set, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
await exact(page);
const scan = page.locator(".ffv-pane-scan");
const found = {};
for (const pane of ["scan", "pattern"]) {
    const { x, y } = await place(page, pane, 2, 4);
    await page.mouse.move(x, y);
    const readout = page.locator(`.ffv-pane-${pane} .ffv-readout`);
    found[pane] = (await until(() => readout.textContent(), (text) => text.startsWith("y 2, x 4 "))).split("  ·  ")[1];
}
await set(page, { "scan.line": wanted.line });
await scan.locator("details.ffv-section summary").click();
for (const name of ["Line profile", "Radial profile"]) {
    const box = scan.locator(".ffv-plot-box").filter({ has: page.getByRole("img", { name: new RegExp(`^${name}`) }) });
    const curve = box.getByRole("img");
    await curve.focus();
    await page.keyboard.press("End");
    const length = (await box.locator(".ffv-plot-value").textContent()).split(":")[0];
    found[name] = [Number(length), await curve.locator("text").last().textContent()];
}
await set(page, { "pattern.axes": true });
const ticks = page.locator(".ffv-pane-pattern .ffv-ticks text");
found.ticks = await until(() => ticks.allTextContents(), (texts) => texts.length > 2);
// The colour bar of a picture for papers.
await page.locator(".ffv-export summary").first().click();
const [file] = await Promise.all([page.waitForEvent("download"), page.locator('[data-export="scan-svg"]').click()]);
const drawn = readFileSync(await file.path(), "utf8");
found.bar = [...drawn.matchAll(/text-anchor="start"[^>]*>([^<]*)</g)].map(([, words]) => words);
tell({ ...found, ...seen });

// How a page looks in one state: what does not fit, what lies over each other, and its picture for papers.
import { readFileSync } from "node:fs";
import { exact, launch, open, set, tell, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url, { viewport: { width: 800, height: 700 } });
await exact(page);
await set(page, wanted.changes);
await exact(page);
await page.waitForTimeout(200);
const found = {};
for (const pane of ["scan", "pattern"]) {
    const panel = page.locator(`.ffv-pane-${pane}`);
    found[pane] = {
        fields: await Promise.all(["low", "high"].map((name) => panel.locator(`[data-field=${name}]`).inputValue())),
        bar: await panel.locator(".ffv-scalebar").textContent(),
        marks: ((await panel.locator(".ffv-marks").getAttribute("d")) ?? "").split("M").length - 1,
        curve: await panel.locator(".ffv-curve").first().getAttribute("d"),
        ticks: await panel.locator(".ffv-ticks text").evaluateAll((all) => all.map((one) => [one.textContent, one.getBoundingClientRect()])),
        stage: await panel.locator(".ffv-stage").boundingBox(),
    };
}
found.beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
if (wanted.picture) await page.screenshot({ path: wanted.picture, fullPage: true });
if (wanted.export) {
    await page.locator(".ffv-export summary").first().click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-export="${wanted.export}"]`).click()]);
    found.file = readFileSync(await file.path(), "utf8");
}
tell({ ...found, ...seen });

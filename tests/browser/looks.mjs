// How a page looks in one state: what does not fit, what lies over each other, and its picture for papers.
import { readFileSync } from "node:fs";
import { exact, launch, open, set, tell, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url, { viewport: { width: 800, height: 700 } });
await exact(page);
await set(page, wanted.changes);
await exact(page);
await page.waitForTimeout(200);
// In one call: for others, much is loaded into the page first.
const found = await page.evaluate(() => {
    const look = (pane) => {
        const of = (selector) => document.querySelector(`.ffv-pane-${pane} ${selector}`);
        const ticks = document.querySelectorAll(`.ffv-pane-${pane} :is(.ffv-ticks, .ffv-ends) text:not(:empty)`);
        return {
            fields: ["low", "high"].map((name) => of(`[data-field=${name}]`).value),
            cut: ["low", "high"].filter((name) => of(`[data-field=${name}]`).scrollWidth > of(`[data-field=${name}]`).clientWidth),
            bar: of(".ffv-scalebar").textContent,
            shapes: document.querySelectorAll(`.ffv-pane-${pane} .ffv-shape`).length,
            marks: (of(".ffv-marks").getAttribute("d") ?? "").split("M").length - 1,
            curve: of(".ffv-curve").getAttribute("d"),
            plots: [...document.querySelectorAll(`.ffv-pane-${pane} .ffv-plot`)].map((plot) => [plot.getAttribute("aria-label"), [...plot.querySelectorAll("text")].map((text) => text.textContent)]),
            ticks: [...ticks].map((one) => [one.textContent, one.getBoundingClientRect().toJSON()]),
            stage: of(".ffv-stage").getBoundingClientRect().toJSON(),
        };
    };
    const beyond = document.documentElement.scrollWidth - innerWidth;
    return { scan: look("scan"), pattern: look("pattern"), beyond };
});
if (wanted.picture) await page.screenshot({ path: wanted.picture, fullPage: true });
if (wanted.export) {
    await page.locator(".ffv-export summary").first().click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-export="${wanted.export}"]`).click()]);
    found.file = readFileSync(await file.path(), "utf8");
}
tell({ ...found, ...seen });

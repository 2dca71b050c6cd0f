// Sliders of scans with more axes, and the panel for scans whose shape is not known, by mouse or by keyboard.
import { drawn, exact, follows, launch, noted, open, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const keyboard = wanted.by === "keyboard";
const shown = async (page) => {
    await exact(page);
    return { state: await state(page), scan: await drawn(page, "scan"), pattern: await drawn(page, "pattern") };
};
const found = {};
const all = [];

// Five axes: one slider.
let { page, seen } = await open(browser, wanted.five);
all.push(seen);
await exact(page);
const slider = page.getByLabel("index on the axis");
await follows(page, "scan", async () => {
    if (keyboard) {
        await slider.focus();
        await page.keyboard.press("End");
        await page.keyboard.press("ArrowLeft");
        return;
    }
    const box = await slider.boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
});
found.slice = await shown(page);
found.words = await page.locator(".ffv-slice output").textContent();

// One axis, whose shape is not known: typed, with frames that are skipped; or left a line.
({ page, seen } = await open(browser, wanted.series));
all.push(seen);
const { press, write } = hands(page, keyboard);
const panel = page.locator(".ffv-scan-shapes");
await exact(page);
found.suggested = await panel.locator(".ffv-thumb span").allTextContents();
// Of transforms, no thumbnails are drawn.
const thumbnail = () => panel.locator("canvas").first().evaluate((canvas) => canvas.toDataURL());
const drawnBefore = await thumbnail();
const transform = page.getByLabel("Transform of the scan image", { exact: true });
for (const what of ["fft", "none"]) {
    await follows(page, "scan", () => transform.selectOption(what));
    found[what] = (await thumbnail()) === drawnBefore;
}
await press(panel.getByRole("button", { name: "It is a line" }));
await panel.waitFor({ state: "hidden" });
await noted(page);
await page.reload();
await exact(page);
await write(panel.getByLabel("rows"), 5);
await write(panel.getByLabel("columns"), 12);
await write(panel.getByLabel("skip (frames)"), 4);
await press(panel.locator("[data-open]"));
await until(() => page.locator(".ffv-facts").textContent(), (text) => text.includes("scan 5 × 12"));
found.typed = await shown(page);
await page.evaluate(() => document.querySelector(".ffv").framefold.load(JSON.stringify({ version: 1, nav_shape: [64] })));
await until(() => page.locator(".ffv-facts").textContent(), (text) => text.includes("scan 64 "));
await exact(page);
// Of a line that was asked for, no other shape is suggested.
found.asked = await panel.isVisible();
tell({ ...found, foreign: all.flatMap(({ foreign }) => foreign), errors: all.flatMap(({ errors }) => errors) });

// Lengths and places in units that differ between rows and columns.
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
tell({ ...found, ...seen });

// What a page makes of odd numbers: colours, limits, histogram, and values under the pointer.
import { drawn, exact, launch, open, place, set, state, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
if (wanted.painter) await page.goto(`${new URL("./", page.url()).href}?painter=${wanted.painter}`);
const { pane } = wanted;
const panel = page.locator(`.ffv-pane-${pane}`);
const found = { shown: [] };
await exact(page);
for (const changes of wanted.changes) {
    await set(page, changes);
    await exact(page);
    found.shown.push({ display: (await state(page))[pane].display, ...(await drawn(page, pane)) });
}
found.values = [];
for (const [y, x] of wanted.places) {
    const to = await place(page, pane, y, x);
    await page.mouse.move(to.x, to.y);
    const words = await until(() => panel.locator(".ffv-readout").textContent(), (text) => text.startsWith(`y ${y}, x ${x} `));
    found.values.push(words.split("  ·  ").at(-1));
}
// Histograms follow a little later.
found.bars = await until(() => panel.locator(".ffv-bars").getAttribute("d"), (d) => d !== null);
found.limits = await panel.locator("[data-limit]").evaluateAll((grips) => grips.map((grip) => grip.getAttribute("transform")));
found.fields = await Promise.all(["low", "high"].map((name) => panel.locator(`[data-field=${name}]`).inputValue()));
if (wanted.line) {
    await panel.getByText("Line", { exact: true }).click();
    found.line = (await state(page))[pane].line;
}
tell({ ...found, ...seen });

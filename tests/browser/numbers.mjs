// What a page makes of odd numbers: colours, limits, histogram, and values under the pointer.
import { drawn, exact, launch, open, place, set, state, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
if (wanted.painter) await page.goto(`${new URL("./", page.url()).href}?painter=${wanted.painter}`);
const { pane } = wanted;
/** An attribute of what is first in the pane, or its text. */
const of = (selector, name) =>
    page.evaluate(([selector, name]) => {
        const node = document.querySelector(selector);
        return name ? node.getAttribute(name) : node.textContent;
    }, [`.ffv-pane-${pane} ${selector}`, name]);
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
    const words = await until(() => of(".ffv-readout"), (text) => text.startsWith(`y ${y}, x ${x} `));
    found.values.push(words.split("  ·  ").at(-1));
}
// Histograms follow a little later.
found.bars = await until(() => of(".ffv-bars", "d"), (d) => d !== null);
[found.limits, found.fields] = await page.evaluate((pane) => {
    const all = (selector) => [...document.querySelectorAll(`.ffv-pane-${pane} ${selector}`)];
    const fields = ["low", "high"].map((name) => all(`[data-field=${name}]`)[0].value);
    return [all("[data-limit]").map((grip) => grip.getAttribute("transform")), fields];
}, pane);
if (wanted.line) {
    await page.locator(`.ffv-pane-${pane}`).getByText("Line", { exact: true }).click();
    found.line = (await state(page))[pane].line;
}
tell({ ...found, ...seen });

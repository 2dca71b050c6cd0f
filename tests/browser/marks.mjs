// Bad pixels and scan positions without data: their marks, notes, and what the canvas shows there.
import { drawn, exact, launch, open, set, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
const { press } = hands(page, wanted.by === "keyboard");
const button = page.getByRole("button", { name: "Marks" });

/** The pixels whose middle is where two lines of marks cross. */
const crossed = (pane) =>
    page.evaluate((pane) => {
        const d = document.querySelector(`.ffv-pane-${pane} .ffv-marks`).getAttribute("d") ?? "";
        const { place } = document.querySelector(".ffv").framefold;
        const box = document.querySelector(`.ffv-pane-${pane} .ffv-overlay`).getBoundingClientRect();
        const [origin, { k }] = [place(pane, 0, 0), place(pane, 0, 0)];
        return [...d.matchAll(/M(\S+) (\S+)l(\S+) /g)].map(([, left, top, size]) => {
            const at = (start, begin, zero) => (begin + Number(start) + Number(size) / 2 - zero) / k;
            return [at(top, box.top, origin.y), at(left, box.left, origin.x)].map((value) => Math.round(100 * value) / 100);
        });
    }, pane);
const both = async () => ({ pattern: await crossed("pattern"), scan: await crossed("scan") });

await exact(page);
await set(page, { "pattern.display.scale": "linear", "scan.query.detector": [] });
await exact(page);
const found = { marks: await both(), saved: [(await state(page)).marks] };
for (const pane of ["pattern", "scan"]) {
    found[pane] = { display: (await state(page))[pane].display, ...(await drawn(page, pane)) };
    const stage = page.locator(`.ffv-pane-${pane} .ffv-stage`);
    const area = await stage.boundingBox();
    found[pane].area = area;
    await page.screenshot({ path: `${wanted.folder}/${pane}.png`, clip: area });
    found[pane].file = `${wanted.folder}/${pane}.png`;
}
const value = async (y, x) => {
    const at = await page.evaluate(([y, x]) => document.querySelector(".ffv").framefold.place("scan", y, x), [y, x]);
    await page.mouse.move(at.x, at.y);
    return page.locator(".ffv-pane-scan .ffv-readout").textContent();
};
found.values = [await value(...wanted.missing), await value(0, 0)];
const notes = page.locator(".ffv-warnings");
await press(notes.locator("summary"));
found.notes = await notes.locator("li").allTextContents();
await press(button);
found.without = await until(both, ({ pattern, scan }) => pattern.length + scan.length === 0);
found.saved.push((await state(page)).marks);
await press(button);
found.again = await until(both, ({ pattern, scan }) => pattern.length > 0 && scan.length > 0);
tell({ ...found, ...seen });

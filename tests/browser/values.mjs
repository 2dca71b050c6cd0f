// Numbers that the page finds by itself: percentiles, histogram, profiles, values under the cursor, linked zoom.
import { drawn, exact, launch, open, set, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
const { press, write } = hands(page, false);
const scan = page.locator(".ffv-pane-scan");
const look = async () => ({ display: (await state(page)).scan.display, ...(await drawn(page, "scan")) });
await exact(page);

const found = {};
// Limits by percentiles; γ.
await write(scan.getByLabel("from (%)"), 5);
await write(scan.getByLabel("to (%)"), 90);
found.percentiles = await until(look, ({ display }) => display.from === 5 && display.to === 90);
await scan.getByLabel("Scale").selectOption("power");
await write(scan.getByLabel("γ"), 0.35);
found.power = await until(look, ({ display }) => display.gamma === 0.35);
// Limits by the histogram's handles.
const limit = scan.locator("[data-limit=low]");
const from = await limit.boundingBox();
await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
await page.mouse.down();
await page.mouse.move(from.x + from.width / 2 + 60, from.y + from.height / 2, { steps: 3 });
await page.mouse.up();
found.limits = await until(look, ({ display }) => !display.auto);
const plot = await scan.locator(".ffv-histogram").boundingBox();
found.handle = (from.x + from.width / 2 + 60 - plot.x) / plot.width;
found.bars = await scan.locator(".ffv-bars").getAttribute("d");
// Values under the pointer, and under the cursor that keys move.
const at = (y, x) => page.evaluate(([y, x]) => document.querySelector(".ffv").framefold.place("scan", y, x), [y, x]);
const readout = () => scan.locator(".ffv-readout").textContent();
found.values = [];
for (const [y, x] of wanted.places) {
    const place = await at(y, x);
    await page.mouse.move(place.x, place.y);
    found.values.push(await until(readout, (text) => text.startsWith(`y ${y}, x ${x} `)));
}
await scan.locator(".ffv-stage").focus();
for (const key of ["ArrowUp", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
found.byKeys = await readout();
// Profiles, each value by the pointer and by keys.
await set(page, { "scan.line": wanted.line });
await scan.getByRole("img", { name: /^Line profile/ }).waitFor(); // it moves what is to be clicked
await scan.locator("details.ffv-section summary").click();
for (const [name, n] of [["Line profile", wanted.n], ["Radial profile", 6]]) {
    const curve = scan.getByRole("img", { name: new RegExp(`^${name}`) });
    await curve.waitFor();
    await curve.scrollIntoViewIfNeeded();
    const value = scan.locator(".ffv-plot-box").filter({ has: page.getByRole("img", { name: new RegExp(`^${name}`) }) }).locator(".ffv-plot-value");
    const box = await curve.boundingBox();
    const ticks = [];
    const [left, right] = [box.x + 46, box.x + box.width - 8];
    const all = new Set();
    for (let x = left; x <= right; x += 5) {
        await page.mouse.move(x, box.y + 60);
        all.add(await value.textContent());
        if (all.size > n) break;
    }
    found[name] = [...all];
    await curve.focus();
    await page.keyboard.press("Home");
    for (let i = 0; i < 3; i++) {
        ticks.push(await value.textContent());
        await page.keyboard.press("ArrowRight");
    }
    found[`${name} by keys`] = ticks;
    if (name === "Line profile") continue;
    // A value that is read follows the picture.
    const [before, { detector }] = [await value.textContent(), (await state(page)).scan.query];
    await set(page, { "scan.query.detector": [] });
    found.followed = await until(() => value.textContent(), (text) => text !== before);
    await set(page, { "scan.query.detector": detector });
}
// Both pictures are zoomed to the same part.
await set(page, { "scan.line": null });
await exact(page);
await press(page.getByText("Link zoom", { exact: true }));
await scan.locator(".ffv-stage").focus();
for (let i = 0; i < 3; i++) await page.keyboard.press("+");
// The cursor takes the picture along.
for (let i = 0; i < 12; i++) await page.keyboard.press("ArrowDown");
found.zoomed = { both: await state(page), cursor: await readout() };
for (const pane of ["scan", "pattern"]) found.zoomed[pane] = await drawn(page, pane);
tell({ ...found, ...seen });

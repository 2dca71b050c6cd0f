// A detector is dragged over the pattern: how soon the scan image follows, and that nothing old is painted.
import { counts, exact, launch, open, place, set, stalePaints, state, tell, wanted } from "./common.mjs";
import { join } from "node:path";
import { hold } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
await exact(page);
const steps = wanted.steps ?? 60;
const radius = wanted.radius ?? 6;
const { cy, cx, r } = (await state(page)).scan.query.detector[0].shape;

/** Drags the detector once around, to where it was. */
async function drag(steps, during = () => {}) {
    const { x, y, k } = await place(page, "pattern", cy, cx);
    const mouse = await hold(page, { x, y });
    // With limits that stay, the picture alone is new.
    await set(page, { "scan.display.auto": false });
    await exact(page);
    await during(0);
    for (let i = 1; i <= steps; i++) {
        const turn = (2 * Math.PI * i) / steps;
        await mouse.move({ x: x + radius * k * Math.sin(2 * turn), y: y + radius * k * Math.sin(turn) });
        await page.waitForTimeout(16);
        await during(i);
    }
    const found = await counts(page);
    await mouse.release();
    await exact(page);
    return found;
}
// What is on the screen, not what can be read from a canvas that is drawn again for that.
const onScreen = async () => {
    const { x, y, width, height } = await page.locator(".ffv-pane-scan .ffv-stage").boundingBox();
    // The middle, without the scale bar.
    return page.screenshot({ clip: { x: x + width / 3, y: y + height / 3, width: width / 3, height: height / 3 } });
};
const before = await counts(page);
const screens = [];
const during = await drag(steps, async (i) => {
    if (i === 0 || i === Math.floor(steps / 4)) screens.push(await onScreen());
});
const after = await counts(page);
const latencies = during.latencies.slice(before.latencies.length).sort((a, b) => a - b);
const at = (part) => latencies[Math.min(latencies.length - 1, Math.floor(part * latencies.length))] ?? null;
// Once more, with pictures for people, if they want to see them.
if (wanted.folder) {
    await drag(12, async (i) => {
        if (i > 0 && i % 2 === 0) await page.locator(".ffv-panes").screenshot({ path: join(wanted.folder, `drag-${String(i).padStart(3, "0")}.png`) });
    });
}
tell({
    painted: during.painted - before.painted,
    dropped: after.stale - before.stale,
    stalePaints: stalePaints(await counts(page)),
    p50: at(0.5),
    p95: at(0.95),
    shape: (await state(page)).scan.query.detector[0].shape,
    r,
    changed: !screens[1].equals(screens[0]),
    painter: after.painter,
    ...seen,
});

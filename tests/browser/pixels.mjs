// What the canvas shows in given states, for comparison with NumPy's pictures.
import { counts, exact, launch, open, pixels, place, state, tell, wanted } from "./common.mjs";

const browser = await launch({ webgl: wanted.webgl });
const { page, seen } = await open(browser, wanted.url);
let colormaps = {};
page.on("websocket", (socket) => {
    socket.on("framereceived", ({ payload }) => {
        const message = typeof payload === "string" ? JSON.parse(payload) : {};
        if (message.type === "hello") colormaps = message.colormaps;
    });
});
// Sockets that were open before are not listened to.
await page.reload();
await exact(page);
const shown = [];
for (const { name, changes } of wanted.states) {
    const saved = await state(page);
    for (const [path, value] of Object.entries(changes)) {
        const keys = path.split(".");
        const last = keys.pop();
        keys.reduce((at, key) => at[key], saved)[last] = value;
    }
    await page.evaluate((text) => document.getElementById("framefold-viewer").framefold.load(text), JSON.stringify(saved));
    await exact(page);
    const found = { name, display: await state(page) };
    for (const pane of ["pattern", "scan"]) {
        const { x, y, k } = await place(page, pane, 0, 0);
        const box = await page.locator(`.ffv-pane-${pane} .ffv-stage`).boundingBox();
        found[pane] = { ...(await pixels(page, pane)), top: y - box.y, left: x - box.x, k };
    }
    shown.push(found);
}
tell({ shown, colormaps, painter: (await counts(page)).painter, ...seen });
await browser.close();

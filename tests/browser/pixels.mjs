// What the canvas shows in given states, for comparison with NumPy's pictures.
import { counts, drawn, exact, launch, open, set, state, tell, wanted } from "./common.mjs";

const browser = await launch({ webgl: wanted.webgl });
let colormaps = {};
const onSocket = (socket) =>
    socket.on("framereceived", ({ payload }) => {
        const message = typeof payload === "string" ? JSON.parse(payload) : {};
        if (message.type === "hello") colormaps = message.colormaps;
    });
const { page, seen } = await open(browser, wanted.url, { onSocket });
await exact(page);
const shown = [];
for (const { name, changes } of wanted.states) {
    await set(page, changes);
    await exact(page);
    const found = { name, display: await state(page) };
    for (const pane of ["pattern", "scan"]) found[pane] = await drawn(page, pane);
    shown.push(found);
}
tell({ shown, colormaps, painter: (await counts(page)).painter, ...seen });

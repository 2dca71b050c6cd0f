// What a picture that is saved says of itself: one of all data, and one that was stopped on the way.
import { readFileSync } from "node:fs";
import { exact, launch, open, tell, until, wanted } from "./common.mjs";
import { pack, unpack } from "./messages.js";

const browser = await launch();
// What is done to its messages below cannot be undone.
const { page, seen } = await open(browser, wanted.url, { changed: true });
async function saved() {
    await page.locator(".ffv-export summary").first().click();
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator('[data-export="scan-svg"]').click()]);
    return readFileSync(await file.path(), "utf8");
}
await exact(page);
const found = { exact: await saved() };
await page.routeWebSocket(/\/ws$/, (client) => {
    const viewer = client.connectToServer();
    viewer.onMessage((message) => {
        if (typeof message === "string") return client.send(message);
        const { head, body } = unpack(new Uint8Array(message).buffer);
        const state = head.type === "picture" ? { state: "partial", label: wanted.label, progress: 0.4 } : {};
        client.send(Buffer.from(pack({ ...head, ...state }, body)));
    });
});
await page.reload();
await until(() => page.locator(".ffv-pane-scan .ffv-badge").textContent(), (text) => text === wanted.label);
found.stopped = await saved();
tell({ ...found, ...seen });

// The viewer over links that are slow, have a prefix, break, or lead to a viewer that ends.
import { counts, exact, launch, open, place, stalePaints, state, tell, until, wanted } from "./common.mjs";
import { proxy } from "./proxy.mjs";

const browser = await launch();
const { rate, latency, prefix } = wanted;
const between = await proxy(new URL(wanted.url), { rate: rate ?? Infinity, latency: latency ?? 0, prefix: prefix ?? "" });

/** Moves the detector in a circle while `during` goes on. */
async function drag(page, steps, during = () => {}) {
    const { cy, cx } = (await state(page)).scan.query.detector[0].shape;
    const start = await place(page, "pattern", cy, cx);
    await page.mouse.move(start.x, start.y);
    await page.mouse.down();
    for (let i = 1; i <= steps; i++) {
        const to = await place(page, "pattern", cy + 5 * Math.sin(i / 6), cx + 5 * Math.sin(i / 4));
        await page.mouse.move(to.x, to.y);
        await page.waitForTimeout(20);
        await during(i);
    }
    await page.mouse.up();
}

const { page, seen } = await open(browser, between.link(wanted.url));
const asked = [];
page.on("websocket", (socket) => {
    socket.on("framesent", ({ payload }) => {
        const message = typeof payload === "string" ? JSON.parse(payload) : {};
        if (message.type === "ask") asked.push(message);
    });
});
const found = { address: page.url() };
await exact(page);

if (wanted.what === "drag") {
    // Sockets that were open before are not listened to: the page is loaded again.
    await page.reload();
    await exact(page);
    await drag(page, 10);
    await exact(page);
    asked.length = 0;
    const before = await counts(page);
    const begin = Date.now();
    await drag(page, wanted.steps ?? 80);
    const during = await counts(page);
    await exact(page);
    found.painted = during.painted - before.painted;
    found.dropped = during.stale - before.stale;
    found.seconds = (Date.now() - begin) / 1000;
    found.asked = asked.length;
    found.precisions = [...new Set(asked.filter(({ wish }) => wish === "fast").map(({ precision }) => precision))];
    found.stalePaints = stalePaints(during);
    const latencies = during.latencies.slice(before.latencies.length).sort((a, b) => a - b);
    found.p95 = latencies[Math.floor(0.95 * latencies.length)] ?? null;
}
if (wanted.what === "killed") {
    await drag(page, 40, (i) => {
        if (i === 15) process.kill(wanted.pid, "SIGKILL");
    });
    await page.locator(".ffv-lost:visible").waitFor();
    found.words = await page.locator(".ffv-lost").textContent();
    await page.getByRole("button", { name: "Reconnect" }).click();
    await until(() => page.locator(".ffv-lost").textContent(), (text) => text.includes("lost"));
    found.again = await page.locator(".ffv-lost").textContent();
    if (wanted.folder) await page.screenshot({ path: `${wanted.folder}/lost.png` });
}
if (wanted.what === "cut") {
    await drag(page, 40, (i) => {
        if (i === 15) between.cut();
    });
    await page.locator(".ffv-lost:visible").waitFor();
    found.words = await page.locator(".ffv-lost").textContent();
    between.mend();
    const painted = (await counts(page)).painted;
    await page.getByRole("button", { name: "Reconnect" }).click();
    await page.locator(".ffv-lost").waitFor({ state: "hidden" });
    await until(() => counts(page), (now) => now.painted > painted);
    await exact(page);
    found.shape = (await state(page)).scan.query.detector[0].shape;
}
tell({ ...found, ...seen });
await browser.close();
between.close();

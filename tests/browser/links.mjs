// The viewer over links that are slow, have a prefix, break, or lead to a viewer that ends.
import { counts, drawn, exact, launch, open, painted, place, set, stalePaints, state, tell, until, wanted } from "./common.mjs";
import { hands, hold } from "./hands.mjs";
import { proxy } from "./proxy.mjs";

const browser = await launch();
const { rate, latency, prefix } = wanted;
const between = await proxy(new URL(wanted.url), { rate: rate ?? Infinity, latency: latency ?? 0, prefix: prefix ?? "" });

/** Moves the detector in a circle while `during` goes on. */
async function drag(page, steps, during = () => {}) {
    const { cy, cx } = (await state(page)).scan.query.detector[0].shape;
    const { x, y, k } = await place(page, "pattern", cy, cx);
    const mouse = await hold(page, { x, y });
    for (let i = 1; i <= steps; i++) {
        await mouse.move({ x: x + 5 * k * Math.sin(i / 4), y: y + 5 * k * Math.sin(i / 6) });
        await page.waitForTimeout(20);
        await during(i);
    }
    await mouse.release();
}

const asked = [];
/** Pictures of the scan as they came, by the number of their question. */
const came = new Map();
const onSocket = (socket) => {
    socket.on("framesent", ({ payload }) => {
        const message = typeof payload === "string" ? JSON.parse(payload) : {};
        if (message.type === "ask") asked.push(message);
    });
    socket.on("framereceived", ({ payload }) => {
        if (typeof payload === "string") return;
        const end = 8 + payload.readUInt32LE(4);
        const head = JSON.parse(payload.subarray(8, end).toString());
        if (head.pane === "scan") came.set(head.gen, { ...head, codes: payload.subarray(end).toString("base64") });
    });
};
const { page, seen, context } = await open(browser, between.link(wanted.url), { onSocket });
const found = { address: page.url() };
await exact(page);

if (wanted.what === "drag") {
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
if (wanted.what === "coarse") {
    // What the canvas shows right after each picture was painted.
    await page.evaluate(() => {
        window.taken = [];
        const viewer = document.querySelector(".ffv").framefold;
        let last = 0;
        const look = () => {
            const { gen } = viewer.counts().paints.filter(({ pane }) => pane === "scan").at(-1);
            if (gen !== last && window.taken.length < 12) {
                const { width, height, data } = viewer.pixels("scan");
                let text = "";
                for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
                window.taken.push({ gen, width, height, rgba: btoa(text), state: JSON.parse(viewer.state()) });
            }
            last = gen;
            requestAnimationFrame(look);
        };
        look();
    });
    const where = await drawn(page, "scan");
    await drag(page, 40);
    await exact(page);
    found.exact = [...came.values()].filter(({ state }) => state === "exact").map(({ dtype }) => dtype);
    const taken = await page.evaluate(() => window.taken);
    found.shown = taken
        .filter(({ gen }) => came.get(gen)?.dtype === "u8")
        .map((one) => ({ ...where, ...one, picture: came.get(one.gen), query: asked.find(({ pane, gen }) => pane === "scan" && gen === one.gen).query }));
}
if (wanted.what === "copied") {
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(page.url()).origin });
    await set(page, wanted.changes);
    await exact(page);
    found.links = [];
    for (const keyboard of [false, true]) {
        const { press } = hands(page, keyboard);
        await page.evaluate(() => navigator.clipboard.writeText("nothing"));
        await press(page.locator(".ffv-export summary"));
        await press(page.locator('[data-export="link"]'));
        found.links.push(await until(() => page.evaluate(() => navigator.clipboard.readText()), (text) => text !== "nothing"));
        found.said = await page.locator(".ffv-said:visible span").textContent();
        await page.locator("h1").click();
    }
    found.before = { state: await state(page), scan: await drawn(page, "scan"), pattern: await drawn(page, "pattern") };
    // In another tab, and in this one, where it is an address that is typed.
    const other = await context.newPage();
    await other.goto(found.links[0]);
    await exact(other);
    found.after = { state: await state(other), scan: await drawn(other, "scan"), pattern: await drawn(other, "pattern") };
    await other.close();
    await set(page, { "scan.query.detector": [] });
    await until(() => page.url(), (url) => url !== found.links[1]);
    await page.evaluate((hash) => (location.hash = hash), new URL(found.links[1]).hash);
    await until(() => state(page), ({ scan }) => scan.query.detector.length > 0);
    await exact(page);
    found.typed = await state(page);
}
if (wanted.what === "killed") {
    await drag(page, 40, (i) => {
        if (i === 15) process.kill(wanted.pid, "SIGKILL");
    });
    await page.locator(".ffv-lost:visible").waitFor();
    found.words = await page.locator(".ffv-lost").textContent();
    // What is chosen now is no longer computed: the picture says that it is of something else, and is not taken away.
    await page.getByLabel("Channel of the scan image").selectOption("std");
    const badge = page.locator(".ffv-pane-scan .ffv-badge");
    await until(() => badge.getAttribute("data-state"), (state) => state === "earlier");
    found.badge = await badge.textContent();
    found.stop = await page.locator(".ffv-stop:visible").count();
    found.saved = [];
    page.on("download", (file) => found.saved.push(file.suggestedFilename()));
    found.refused = [];
    for (const name of ["scan-png", "scan-svg"]) {
        await page.locator(".ffv-export summary").click();
        await page.locator(`[data-export="${name}"]`).click();
        const said = page.locator(".ffv-said:visible");
        await said.waitFor();
        found.refused.push(await said.locator("span").textContent());
        await said.getByRole("button").click();
        await page.locator("h1").click();
    }
    await page.locator("[data-guess=disk]").click();
    found.guess = await page.locator(".ffv-said:visible span").textContent();
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
    const before = await painted(page);
    await hands(page, true).press(page.getByRole("button", { name: "Reconnect" }));
    await page.locator(".ffv-lost").waitFor({ state: "hidden" });
    await until(() => painted(page), (now) => now > before);
    await exact(page);
    found.shape = (await state(page)).scan.query.detector[0].shape;
}
tell({ ...found, ...seen });
between.close();

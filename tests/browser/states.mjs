// What was set, opened again: from the address, from a file, and beside other files.
import { address, exact, inAddress, launch, open, place, state, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen, context } = await open(browser, wanted.url);
const found = {};

/** What a page shows: of which file, with which scan, the first value of its picture, and what it says. */
async function look(of) {
    await exact(of);
    const { x, y } = await place(of, "scan", 0, 0);
    await of.mouse.move(x, y);
    const readout = () => of.evaluate(() => document.querySelector(".ffv-pane-scan .ffv-readout").textContent);
    const first = Number((await until(readout, (text) => text.startsWith("y 0, x 0 ") || text.startsWith("x 0 "))).split("  ·  ").at(-1));
    await of.mouse.move(0, 0);
    const words = await of.evaluate(() => {
        const said = [...document.querySelectorAll(".ffv-said span")].filter((node) => node.checkVisibility());
        const [name, facts] = ["h1", ".ffv-facts"].map((one) => document.querySelector(one).textContent);
        return { name, facts, said: said.map((node) => node.textContent) };
    });
    return { ...words, first, state: await state(of) };
}
const named = (of, name) => until(() => of.locator("h1").textContent(), (now) => now === name);

await exact(page);
if (wanted.what === "skip") {
    for (const [label, value] of [["rows", 5], ["columns", 6], ["skip", 7]]) {
        await page.locator(".ffv-scan-shapes label", { hasText: label }).locator("input").fill(String(value));
        await page.keyboard.press("Tab");
    }
    await page.locator("[data-open]").click();
    await until(() => page.locator(".ffv-facts").textContent(), (text) => text.includes("scan 5 × 6"));
    found.chosen = await look(page);
    await inAddress(page, '"sync_offset":7');
    // Another page opens the same file with another scan: what is open when this one is loaded again.
    const other = await context.newPage();
    await other.goto(wanted.url);
    await exact(other);
    await other.evaluate(() => {
        const viewer = document.querySelector(".ffv").framefold;
        viewer.load(JSON.stringify({ ...JSON.parse(viewer.state()), sync_offset: 3 }));
    });
    await until(async () => (await state(other)).sync_offset, (offset) => offset === 3);
    found.other = await look(other);
    await page.reload();
    found.reloaded = await look(page);
}
if (wanted.what === "files") {
    await page.locator(".ffv-pane-scan select").first().selectOption("max");
    await inAddress(page, '"kind":"max"');
    const other = await context.newPage();
    await other.goto(page.url().replace(/#.*/, ""));
    await exact(other);
    await other.locator(".ffv-menu > summary", { hasText: "Open" }).click();
    await other.locator(".ffv-files button", { hasText: "b.npy" }).click();
    await named(other, "b.npy");
    await exact(other);
    await page.reload();
    found.reloaded = await look(page);
    // What was saved of one file, loaded by hand beside another one.
    await other.evaluate((text) => document.querySelector(".ffv").framefold.load(text), JSON.stringify(found.reloaded.state));
    await other.locator(".ffv-said:visible").waitFor();
    found.loaded = await look(other);
}
if (wanted.what === "address") {
    await page.evaluate((hash) => {
        // The file takes longer to open than what was set just before is kept from the address.
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (data) {
            const slow = typeof data === "string" && data.includes('"type":"open"');
            setTimeout(() => send.call(this, data), slow ? 600 : 0);
        };
        const viewer = document.querySelector(".ffv").framefold;
        viewer.load(viewer.state());
        location.hash = hash;
    }, wanted.hash);
    await page.locator(".ffv-said:visible").waitFor();
    found.address = await address(page);
    found.typed = await look(page);
    await page.reload();
    found.reloaded = await look(page);
}
if (wanted.what === "two") {
    await page.locator(".ffv-pane-scan select").first().selectOption("max");
    await inAddress(page, '"kind":"max"');
    // The second is asked for while the first is being opened.
    await page.evaluate(() => {
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (data) {
            const slow = typeof data === "string" && data.includes('"type":"open"');
            setTimeout(() => send.call(this, data), slow ? 1000 : 0);
        };
    });
    for (const name of ["c.npy", "b.npy"]) {
        await page.locator(".ffv-menu > summary", { hasText: "Open" }).click();
        await page.locator(".ffv-files button", { hasText: name }).click();
    }
    await named(page, "b.npy");
    found.shown = await look(page);
}
if (wanted.what === "odd") {
    const said = page.locator(".ffv-said:visible span");
    const taken = async () => {
        await said.waitFor();
        const words = await said.textContent();
        await page.locator(".ffv-said button").click();
        return words;
    };
    const load = (text) => page.evaluate((text) => document.querySelector(".ffv").framefold.load(text), text);
    const before = await state(page);
    found.loaded = [];
    for (const [path, value] of wanted.odd) {
        const saved = structuredClone(before);
        const keys = path.split(".");
        const last = keys.pop();
        keys.reduce((at, key) => at[key], saved)[last] = value;
        found.loaded.push(await load(JSON.stringify(saved)).then(() => "taken", (error) => String(error).replace(/^.*Error: /, "").split("\n")[0]));
    }
    await load(JSON.stringify({ version: 1, scan: { query: { channel: { kind: "com", part: "y" } } } }));
    await exact(page);
    found.vectors = (await state(page)).scan.query.channel;
    [found.typed, found.opened] = [[], []];
    for (const hash of wanted.hashes) {
        await page.evaluate((hash) => (location.hash = hash), hash);
        found.typed.push(await taken());
        const other = await context.newPage();
        other.on("pageerror", (error) => seen.errors.push(String(error)));
        await other.goto(page.url().replace(/#.*/, "") + hash);
        await exact(other);
        found.opened.push(await other.locator(".ffv-said:visible span").textContent());
    }
}
if (wanted.what === "shown") found.shown = await look(page);
tell({ ...found, ...seen });

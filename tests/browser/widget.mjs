// The module as a notebook uses it: without a page of its own, and without a viewer behind it.
import { launch, open, tell, until, wanted } from "./common.mjs";
import { serveMock } from "./serve.mjs";

const browser = await launch({ webgl: wanted.webgl });
const { url, close } = await serveMock();
const { page, seen } = await open(browser, url);
const found = {};
await page.locator(".ffv-pane-scan .ffv-badge[data-state=exact]").waitFor();
const asked = () => page.evaluate(() => window.model.asked.length);
const before = await asked();
await page.locator(".ffv-pane-pattern .ffv-centre").focus();
await page.keyboard.press("ArrowRight");
found.asked = (await until(asked, (n) => n >= before + 2)) - before;
found.wishes = await page.evaluate((n) => window.model.asked.slice(n).map(({ wish }) => wish), before);
// A notebook's page scrolls under the pointer; the wheel zooms after a click only.
await page.locator("h1").click();
await page.locator(".ffv-pane-scan .ffv-stage").hover();
await page.mouse.wheel(0, -300);
await page.waitForTimeout(200);
const fields = await page.locator(".ffv-pane-scan .ffv-scalebar text").textContent();
await page.locator(".ffv-pane-scan .ffv-stage").click({ position: { x: 5, y: 5 } });
await page.mouse.wheel(0, -900);
await until(() => page.locator(".ffv-pane-scan .ffv-scalebar text").textContent(), (text) => text !== fields);
found.scale = [fields, await page.locator(".ffv-pane-scan .ffv-scalebar text").textContent()];
found.hash = new URL(page.url()).hash;
// What goes on in the background, and why it does not.
found.background = [];
for (const said of [
    { state: "working", done: 0.125, label: "reads all data" },
    { state: "done", done: 1, label: "" },
    { state: "failed", done: 0, label: "the disk is gone" },
]) {
    await page.evaluate((said) => window.model.say({ type: "progress", what: "background", ...said }), said);
    found.background.push(await page.locator(".ffv-background").textContent());
}
// The kernel may be busy, or gone: the model says so.
await page.evaluate(() => {
    for (const listener of window.model.listeners) listener({ closed: "the kernel has ended" }, []);
});
found.words = await page.locator(".ffv-lost:visible").textContent();
// Of a kernel that was restarted, the model says that, and takes nothing any more.
const words = () => page.locator(".ffv-lost").textContent();
await page.locator(".ffv-lost button").click();
await until(words, (text) => text === "Connecting …");
await page.evaluate(() => {
    for (const listener of window.model.losers) listener();
});
found.restarted = [await page.locator(".ffv-lost:visible").textContent()];
await page.evaluate(() => {
    window.model.send = () => {
        throw new Error("Cannot send");
    };
});
await page.locator(".ffv-lost button").click();
found.restarted.push((await until(() => page.locator(".ffv-lost:visible").allTextContents(), ([text]) => text?.includes("The connection is lost")))[0]);
await page.evaluate(() => window.end());
found.left = await page.locator("#cell").innerText();
// Without a kernel, as in a saved notebook, nothing is said to what is sent.
await page.evaluate(() => {
    window.model.send = () => {};
    window.render({ model: window.model, el: document.getElementById("cell") });
});
found.late = await until(() => page.locator("#cell").innerText(), (text) => text !== "Opening …");
tell({ ...found, ...seen });
close();

// The menu of files, by mouse or by keyboard: other files, folders, and files that are gone or broken.
import { rmSync, writeFileSync } from "node:fs";
import { drawn, exact, follows, launch, open, set, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
const keyboard = wanted.by === "keyboard";
const { press } = hands(page, keyboard);
const summary = page.locator(".ffv-menu > summary", { hasText: "Open" });
const list = page.locator(".ffv-files");
const items = list.locator("button");
const title = page.locator("h1");
const said = page.locator(".ffv-said:visible");
const names = async () => (await items.locator("span:first-child").allTextContents()).concat(await items.filter({ hasText: "above" }).allTextContents());
const button = (name) => items.filter({ hasText: name });

/** The names in the menu once those of `has` are there. */
async function listed(has) {
    await button(has).waitFor();
    return (await names()).sort();
}
/** Opens the menu, goes to the folder, and presses an entry of it. */
async function pick(folder, name) {
    await press(summary);
    if (folder) {
        await button(folder).waitFor();
        await press(button(folder));
    }
    await button(name).waitFor();
    if (name === "gone.npy") rmSync(wanted.gone);
    await press(button(name));
}
async function shown(name) {
    await until(() => title.textContent(), (now) => now === name);
    await exact(page);
    await set(page, { "scan.display.colormap": "magma" });
    await exact(page);
    return { name, facts: await page.locator(".ffv-facts").textContent(), display: (await state(page)).scan.display, ...(await drawn(page, "scan")) };
}
async function refused(folder, name) {
    await pick(folder, name);
    await said.waitFor();
    const found = { words: await said.textContent(), title: await title.textContent() };
    await press(said.getByRole("button", { name: "Dismiss" }));
    return found;
}

await exact(page);
const found = { shown: [], lists: [] };
await press(summary);
found.lists.push(await listed("b.npy"));
// Escape closes it, and so does a click elsewhere.
if (keyboard) await page.keyboard.press("Escape");
else await title.click();
await list.waitFor({ state: "hidden" });
// What was listed is not there to be pressed when the menu opens again, before it is listed anew.
await until(() => items.count(), (count) => count === 0);
await pick(undefined, "b.npy");
found.shown.push(await shown("b.npy"));
await press(summary);
await button("folder/").waitFor();
await press(button("folder/"));
found.lists.push(await listed("sub/"));
// Keys go on where they are.
if (keyboard) found.focused = await page.evaluate(() => document.activeElement.closest(".ffv-files") !== null);
await press(button("sub/"));
found.lists.push(await listed("c.npy"));
await press(button("folder above"));
await button("sub/").waitFor();
await press(button("sub/"));
await button("c.npy").waitFor();
await press(button("c.npy"));
found.shown.push(await shown("c.npy"));
// What cannot be opened leaves everything as it is.
found.gone = await refused("folder/", "gone.npy");
found.broken = await refused("folder/", "broken.npy");
await follows(page, "scan", () => page.keyboard.press("d"));
found.shown.push(await shown("c.npy"));
// The shape of the scan is that of the file that is shown, not of one that could not be opened.
await pick("folder/", "line.npy");
await page.locator(".ffv-thumb", { hasText: "4 × 16" }).waitFor();
found.broken = await refused("folder/", "broken.npy");
await press(page.locator(".ffv-thumb", { hasText: "4 × 16" }));
await until(() => page.locator(".ffv-facts").textContent(), (text) => text.includes("scan 4 × 16"));
found.shown.push(await shown("line.npy"));
// A file that is another one now: what is shown stays, and words say why nothing follows.
writeFileSync(wanted.line, "nothing of a scan");
await page.keyboard.press("d");
const trouble = page.locator(".ffv-pane-scan .ffv-trouble:visible");
await trouble.waitFor();
found.replaced = await trouble.textContent();
found.badge = await page.locator(".ffv-pane-scan .ffv-badge").textContent();
found.stays = { name: "line.npy", facts: "scan 4 × 16", display: (await state(page)).scan.display, ...(await drawn(page, "scan")) };
tell({ ...found, ...seen });

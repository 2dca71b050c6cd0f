// Functions of the session in a notebook's page: chosen by mouse and by keyboard, what they show, and what they say.
import { drawn, exact, follows, launch, open, set, state, tell, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
const { press, choose } = hands(page, wanted.by === "keyboard");
const box = (pane) => page.getByLabel(pane === "scan" ? "Channel of the scan image" : "Channel of the pattern", { exact: true });
const trouble = page.locator(".ffv-pane-scan .ffv-trouble:visible");
await exact(page);
await set(page, { "pattern.display.scale": "linear" });
await exact(page);

const found = { channels: {}, shown: [] };
for (const pane of ["scan", "pattern"]) {
    const own = await box(pane).locator("option[value^='own:']").evaluateAll((all) => all.map(({ value, textContent }) => [value, textContent]));
    found.channels[pane] = own.map(([, words]) => words);
    for (const [value, words] of own) {
        if (/^(bad|endless):/.test(words)) continue;
        await follows(page, pane, () => choose(box(pane), value));
        found.shown.push({ pane, words, display: (await state(page))[pane].display, ...(await drawn(page, pane)) });
    }
}
// One that fails says why, and the picture that was there stays; another channel takes the words away.
const before = await drawn(page, "scan");
await choose(box("scan"), "own:bad:value");
await trouble.waitFor();
found.trouble = await trouble.textContent();
found.stays = (await drawn(page, "scan")).rgba === before.rgba;
await follows(page, "scan", () => choose(box("scan"), "sum"));
found.left = await trouble.count();
// What takes long is stopped.
await choose(box("scan"), "own:endless:value");
const stop = page.locator(".ffv-pane-scan .ffv-stop:visible");
await stop.waitFor();
await press(stop);
await stop.waitFor({ state: "hidden" });
await follows(page, "scan", () => choose(box("scan"), "mean"));
found.last = { display: (await state(page)).scan.display, ...(await drawn(page, "scan")) };
tell({ ...found, ...seen });

// Pictures of the page as users see it: each view is shown, and kept in a folder if people want to see it.
import { exact, launch, open, set, tell, wanted } from "./common.mjs";

const browser = await launch();
const scheme = wanted.dark ? "dark" : "light";
const { page, seen } = await open(browser, wanted.url, { viewport: { width: wanted.width ?? 1280, height: 960 }, colorScheme: scheme, reducedMotion: "reduce" });
const panes = wanted.panes ?? ["pattern", "scan"];
await exact(page, panes);
const words = [];
for (const { name, changes, click } of wanted.views) {
    if (changes) await set(page, changes);
    await exact(page, panes);
    for (const selector of click ?? []) await page.locator(selector).first().click();
    if (click) await exact(page, panes);
    // Plots are drawn a little later than pictures.
    await page.waitForTimeout(300);
    const said = await page.evaluate(() => {
        const all = (selector) => [...document.querySelectorAll(selector)];
        const trouble = all(".ffv-trouble, .ffv-said.ffv-wrong").filter((node) => node.checkVisibility());
        const [words, badges] = [trouble, all(".ffv-badge")].map((nodes) => nodes.map((node) => node.textContent));
        return { trouble: words, badges, text: document.querySelector("#framefold-viewer").innerText.slice(0, 4000) };
    });
    words.push({ name, ...said });
    if (wanted.folder) await page.screenshot({ path: `${wanted.folder}/${name}.png`, fullPage: true });
}
tell({ words, ...seen });

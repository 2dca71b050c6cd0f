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
    const trouble = await page.locator(".ffv-trouble:visible, .ffv-said.ffv-wrong:visible").allTextContents();
    words.push({ name, trouble, badges: await page.locator(".ffv-badge").allTextContents(), text: (await page.locator("#framefold-viewer").innerText()).slice(0, 4000) });
    if (wanted.folder) await page.screenshot({ path: `${wanted.folder}/${name}.png`, fullPage: true });
}
tell({ words, ...seen });

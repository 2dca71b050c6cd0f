// What the page sets again as it was, while pictures follow: browsers lay out and paint it anew.
import { exact, follows, launch, open, tell, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
await exact(page);
await page.evaluate(() => {
    window.records = [];
    window.badges = new Set();
    // No answer is late: no picture is said to be of earlier settings.
    const { setTimeout } = window;
    window.setTimeout = (action, ms) => (ms === 250 ? 0 : setTimeout(action, ms));
    const observer = new MutationObserver((records) => {
        window.records.push(...records);
        document.querySelectorAll(".ffv-badge").forEach((badge) => window.badges.add(badge.dataset.state));
    });
    observer.observe(document.querySelector(".ffv"), { attributes: true, attributeOldValue: true, childList: true, subtree: true });
});
for (const key of ["d", "s", "a", "w"]) await follows(page, "scan", () => page.keyboard.press(key));
await follows(page, "scan", () => page.getByLabel("Channel of the scan image").selectOption("std"));
// Plots come after pictures.
await page.waitForTimeout(300);
const found = await page.evaluate(() => {
    const { records } = window;
    const name = ({ target }, what) => `${target.getAttribute("class") ?? target.tagName} ${what}`;
    const repeats = [];
    records.forEach((record, i) => {
        const { type, target, attributeName, oldValue, addedNodes, removedNodes } = record;
        if (type === "attributes") {
            const next = records.slice(i + 1).find((later) => later.target === target && later.attributeName === attributeName);
            if (oldValue === (next ? next.oldValue : target.getAttribute(attributeName))) repeats.push(name(record, attributeName));
        } else if (addedNodes.length && removedNodes.length) {
            const html = (nodes) => [...nodes].map((node) => node.outerHTML ?? node.data).join("");
            if (html(addedNodes) === html(removedNodes)) repeats.push(name(record, "children"));
        }
    });
    return { repeats, changed: records.length, badges: [...window.badges] };
});
tell({ ...found, ...seen });

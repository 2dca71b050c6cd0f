// Every control is used, once by mouse and once by keyboard, and what it does is looked at.
import { Steps, exact, launch, noted, open, painted, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const keyboard = wanted.by === "keyboard";
const browser = await launch();
// Large enough for all that is beside each other on a screen; each point more is drawn by the processor.
const { page, seen } = await open(browser, wanted.url, { viewport: { width: 1000, height: 700 } });
const steps = new Steps();
const { step } = { step: (name, action) => steps.step(name, action) };
const { press, write, choose, move, give } = hands(page, keyboard);

// --- What is looked at ---------------------------------------------------------------------------

const pane = (name) => page.locator(`.ffv-pane-${name}`);
const pattern = pane("pattern");
const scan = pane("scan");
const detector = async () => (await state(page)).scan.query.detector;
const region = async () => (await state(page)).pattern.query.region;
const display = async (name) => (await state(page))[name].display;
const handle = (of, index, id) => of.locator(`.ffv-shape >> nth=${index}`).locator(`[data-handle="${id}"]`);

/** Does something after which the pane's picture is another one, and waits for it. */
async function follows(name, action) {
    const before = await painted(page);
    await action();
    const trouble = await exact(page, [name], before);
    if (trouble.length) throw new Error(trouble.join("; "));
}

/** The numbers of a shape differ after an action. */
async function changes(get, action) {
    const before = JSON.stringify(await get());
    await action();
    return until(get, (now) => JSON.stringify(now) !== before);
}

await exact(page);

const HANDLES = {
    point: ["centre"],
    disk: ["centre", "r"],
    ring: ["centre", "ri", "ro"],
    wedge: ["centre", "ri", "ro", "from", "to"],
    rectangle: ["centre", "00", "01", "11", "10"],
    polygon: ["centre", "p0", "p1", "p2"],
    lattice: ["centre", "a", "b", "r"],
};
/** Begins again with what was set first: what was moved about may lie outside of the picture. */
const first = JSON.stringify(await state(page));
async function again() {
    await page.evaluate((text) => document.querySelector(".ffv").framefold.load(text), first);
    await exact(page);
}

for (const [kind, ids] of Object.entries(HANDLES)) {
    await again();
    await step(`detector ${kind}`, async () => {
        const now = (await detector())[0].shape.kind;
        if (now !== kind) await follows("scan", () => press(pattern.locator(`[data-kind=${kind}]`)));
        return (await detector())[0].shape.kind === kind;
    });
    for (const id of ids) {
        await step(`detector ${kind}: handle ${id}`, () =>
            changes(detector, () => follows("scan", () => move(handle(pattern, 0, id), 2, kind === "wedge" ? 3 : 1))));
    }
    const fields = await pattern.locator(".ffv-shape-list input").count();
    for (let i = 0; i < fields; i++) {
        await step(`detector ${kind}: field ${i}`, () =>
            changes(detector, async () => {
                const field = pattern.locator(".ffv-shape-list input").nth(i);
                const value = Number(await field.inputValue());
                const order = (await field.getAttribute("data-field")) === "order";
                await follows("scan", () => write(field, value + (order ? 1 : 2)));
            }));
    }
}
await again();
const disk = async () => (await detector())[0].shape;
if (keyboard) {
    await step("arrow keys in a field", async () => {
        const field = pattern.locator("[data-field=r]");
        const { r } = await disk();
        await field.focus();
        await follows("scan", () => page.keyboard.press("ArrowUp"));
        await follows("scan", () => page.keyboard.press("Shift+ArrowUp"));
        await follows("scan", () => page.keyboard.press("ArrowDown"));
        return (await disk()).r === r + 10;
    });
    await step("Shift moves by 10", async () => {
        const { cx } = await disk();
        await handle(pattern, 0, "centre").focus();
        await follows("scan", () => page.keyboard.press("Shift+ArrowLeft"));
        await follows("scan", () => page.keyboard.press("Shift+D"));
        await follows("scan", () => page.keyboard.press("a"));
        return (await disk()).cx === cx - 1;
    });
} else {
    await step("a shape is dragged by its body", async () => {
        const { cy, cx, r } = await disk();
        const box = await pattern.locator(".ffv-stage").boundingBox();
        const { x, y, k } = await page.evaluate(([y, x]) => document.querySelector(".ffv").framefold.place("pattern", y, x), [cy, cx]);
        const from = { x: x - r * k, y };
        if (from.x < box.x) throw new Error("the disk is not in view");
        await page.mouse.move(from.x, from.y);
        await page.mouse.down();
        await follows("scan", () => page.mouse.move(from.x + 3 * k, from.y + 2 * k, { steps: 3 }));
        await page.mouse.up();
        const now = await disk();
        return Math.abs(now.cx - cx - 3) < 0.11 && Math.abs(now.cy - cy - 2) < 0.11 && now.r === r;
    });
}
await step("numbers in calibrated units", async () => {
    const { r, cy } = await disk();
    await press(pattern.getByRole("button", { name: "mrad" }));
    const [radius, y] = [pattern.locator("[data-field=r]"), pattern.locator("[data-field=cy]")];
    const shown = [Number(await radius.inputValue()), Number(await y.inputValue())];
    await follows("scan", () => write(radius, 3 * wanted.pixel));
    const now = await disk();
    await press(pattern.getByRole("button", { name: "mrad" }));
    const near = (a, b) => Math.abs(a - b) < 1e-4 * Math.max(1, Math.abs(b));
    if (!near(shown[0], r * wanted.pixel) || !near(shown[1], (cy - wanted.centre[0]) * wanted.pixel)) throw new Error(JSON.stringify(shown));
    return near(now.r, 3) && near(Number(await radius.inputValue()), 3);
});
await again();
await step("polygon: a corner more and less", async () => {
    await press(pattern.locator("[data-kind=polygon]"));
    const n = (await detector())[0].shape.points.length;
    if (keyboard) {
        await handle(pattern, 0, "p1").focus();
        await page.keyboard.press("Insert");
    } else await handle(pattern, 0, "p1").dblclick();
    await until(detector, (now) => now[0].shape.points.length === n + 1);
    await handle(pattern, 0, "p1").focus();
    await page.keyboard.press("Delete");
    await until(detector, (now) => now[0].shape.points.length === n);
});
await step("a mask from a file", async () => {
    await give(pattern.locator("[data-kind=array]"), wanted.mask);
    await until(detector, (now) => now[0].shape.kind === "array");
    await exact(page);
});
await step("a mask that does not fit", async () => {
    await give(pattern.locator("[data-kind=array]"), wanted.wrongMask);
    const said = page.locator(".ffv-said.ffv-wrong:visible");
    await said.waitFor();
    const words = await said.textContent();
    await press(said.locator("button"));
    return words;
});
await step("back to a disk", () => follows("scan", () => press(pattern.locator("[data-kind=disk]"))));
await step("add +", () => changes(detector, () => follows("scan", () => press(pattern.locator("[data-add=plus]")))));
await step("add −", async () => {
    await follows("scan", () => press(pattern.locator("[data-add=minus]")));
    return (await detector()).map(({ sign }) => sign).join() === "plus,plus,minus";
});
await step("sign", async () => {
    await follows("scan", () => choose(pattern.getByLabel("Sign of shape 3"), "plus"));
    return (await detector())[2].sign === "plus";
});
await step("select a shape by its name", async () => {
    await press(pattern.locator(".ffv-shape-name").nth(0));
    await pattern.locator(".ffv-shape-name").nth(0).and(page.locator("[aria-pressed=true]")).waitFor();
});
await step("remove", async () => {
    await follows("scan", () => press(pattern.locator("[data-remove]")));
    await handle(pattern, 0, "centre").focus();
    await follows("scan", () => page.keyboard.press("Delete"));
    return (await detector()).length === 1;
});
await step("find disk", () => changes(detector, () => follows("scan", () => press(pattern.locator("[data-guess=disk]")))));

for (const kind of ["rectangle", "disk", "polygon", "point"]) {
    await step(`region ${kind}`, () => follows("pattern", () => press(scan.locator(`[data-kind=${kind}]`))));
    await step(`region ${kind}: moved`, () => changes(region, () => follows("pattern", () => move(handle(scan, 0, "centre"), 2, 1))));
}
await step("region: corners and numbers of a rectangle", async () => {
    // In the middle again: where it was moved, corners would soon lie outside.
    await follows("pattern", () => press(scan.locator("[data-remove]")));
    await follows("pattern", () => press(scan.locator("[data-kind=rectangle]")));
    for (const id of ["00", "01", "11", "10"]) await changes(region, () => follows("pattern", () => move(handle(scan, 0, id), 2, 1)));
    const fields = scan.locator(".ffv-shape-list input");
    for (let i = 0; i < (await fields.count()); i++) {
        const value = Number(await fields.nth(i).inputValue());
        await changes(region, () => follows("pattern", () => write(fields.nth(i), value + 1)));
    }
});
await step("region: one more", async () => {
    await follows("pattern", () => press(scan.locator("[data-add=plus]")));
    await press(scan.locator(".ffv-shape-name").nth(0));
    await follows("pattern", () => press(scan.locator("[data-remove]")));
    await follows("pattern", () => press(scan.locator("[data-kind=point]")));
    return (await region()).length === 1;
});
await step("region point: put elsewhere", () =>
    changes(region, () =>
        follows("pattern", async () => {
            if (keyboard) {
                await scan.locator(".ffv-stage").focus();
                for (const key of ["ArrowLeft", "ArrowUp", "Enter"]) await page.keyboard.press(key);
            } else await scan.locator(".ffv-stage").click({ position: { x: 300, y: 60 } });
        })));
await step("region removed", async () => {
    await follows("pattern", () => press(scan.locator("[data-remove]")));
    return (await region()).length === 0;
});

await again();
const keys = (box) => box.locator("option").evaluateAll((all) => all.map(({ value }) => value));
for (const [name, label] of [["scan", "Channel of the scan image"], ["pattern", "Channel of the pattern"], ["scan", "Transform of the scan image"], ["pattern", "Transform of the pattern"]]) {
    const box = page.getByLabel(label, { exact: true });
    const all = await keys(box);
    for (const key of [...all.slice(1), all[0]]) {
        await step(`${label}: ${key}`, () => follows(name, () => choose(box, key)));
    }
}
await step("vectors", async () => {
    await follows("scan", () => choose(page.getByLabel("Channel of the scan image"), "com:y"));
    const channel = async () => (await state(page)).scan.query.channel;
    await changes(channel, () => follows("scan", () => write(scan.locator("[data-field=rotation]"), 30)));
    await changes(channel, () => follows("scan", () => press(scan.getByText("Flip y", { exact: true }))));
    await changes(channel, () => follows("scan", () => press(scan.getByText("Mean centre", { exact: true }))));
    await changes(channel, () => follows("scan", () => write(scan.getByLabel("centre y (px)"), 11)));
    await changes(channel, () => follows("scan", () => write(scan.getByLabel("centre x (px)"), 12)));
    await changes(channel, () => follows("scan", () => press(scan.locator("[data-guess=com]"))));
    const found = await channel();
    await follows("scan", () => choose(page.getByLabel("Channel of the scan image"), "sum"));
    return found;
});

for (const name of ["pattern", "scan"]) {
    const of = pane(name);
    const look = () => display(name);
    await step(`${name}: colour map`, () => changes(look, () => choose(of.getByLabel("Colour map"), "magma")));
    for (const scale of ["log", "sqrt", "power", "linear"]) {
        if ((await look()).scale !== scale) await step(`${name}: ${scale}`, () => changes(look, () => choose(of.getByLabel("Scale"), scale)));
        if (scale === "power") await step(`${name}: gamma`, () => changes(look, () => write(of.getByLabel("γ"), 0.3)));
        await step(`${name}: ${scale} is said to be display only`, () =>
            until(() => of.locator(".ffv-display-only:visible").count(), (n) => n === (scale === "linear" ? 0 : 1)));
    }
    await step(`${name}: from`, () => changes(look, () => write(of.getByLabel("from (%)"), 2)));
    await step(`${name}: to`, () => changes(look, () => write(of.getByLabel("to (%)"), 97)));
    const { low, high } = await look();
    await step(`${name}: low`, () => changes(look, () => write(of.locator("[data-field=low]"), low + (high - low) / 8)));
    await step(`${name}: high`, () => changes(look, () => write(of.locator("[data-field=high]"), high - (high - low) / 8)));
    await step(`${name}: lower limit`, () => changes(look, () => move(of.locator("[data-limit=low]"), 2, 0)));
    await step(`${name}: upper limit`, () =>
        changes(look, async () => {
            if (!keyboard) return move(of.locator("[data-limit=high]"), -2, 0);
            await of.locator("[data-limit=high]").focus();
            await page.keyboard.press("ArrowLeft");
        }));
    await step(`${name}: automatic`, async () => {
        await press(of.getByText("Auto", { exact: true }));
        return (await look()).auto;
    });
    const zoom = async () => (await look()).zoom;
    await step(`${name}: zoom in`, () => changes(zoom, () => press(of.getByLabel("Zoom in"))));
    await step(`${name}: zoom out`, () => changes(zoom, () => press(of.getByLabel("Zoom out"))));
    await step(`${name}: zoom by ${keyboard ? "keys" : "wheel"}`, () =>
        changes(zoom, async () => {
            await of.locator(".ffv-stage").focus();
            if (keyboard) {
                for (const key of ["+", "=", "-"]) await page.keyboard.press(key);
                return;
            }
            await of.locator(".ffv-stage").hover({ position: { x: 50, y: 50 } });
            await page.mouse.wheel(0, -400);
        }));
    if (!keyboard) {
        await step(`${name}: pan`, () =>
            changes(zoom, async () => {
                const box = await of.locator(".ffv-stage").boundingBox();
                await page.mouse.move(box.x + 30, box.y + 30);
                await page.mouse.down();
                await page.mouse.move(box.x + 60, box.y + 50, { steps: 3 });
                await page.mouse.up();
            }));
    }
    await step(`${name}: all`, async () => {
        if (keyboard) {
            await of.locator(".ffv-stage").focus();
            await page.keyboard.press("0");
        } else await press(of.getByLabel("Show all"));
        return (await zoom()) === null;
    });
    await step(`${name}: axes`, async () => {
        await press(of.getByText("Axes", { exact: true }));
        await of.locator(".ffv-ticks text").first().waitFor();
    });
    await step(`${name}: line profile`, async () => {
        await press(of.getByText("Line", { exact: true }));
        const line = async () => (await state(page))[name].line;
        await of.getByRole("img", { name: /^Line profile/ }).waitFor();
        await changes(line, () => move(of.locator('[data-handle="line0"]'), 1, 2));
        await changes(line, () => move(of.locator('[data-handle="line1"]'), 1, 3));
    });
    await step(`${name}: value under the cursor`, async () => {
        if (keyboard) {
            await of.locator(".ffv-stage").focus();
            await page.keyboard.press("ArrowRight");
        } else await of.locator(".ffv-stage").hover({ position: { x: 200, y: 150 } });
        return until(() => of.locator(".ffv-readout").textContent(), (text) => /y \d+, x \d+ .*\d/.test(text));
    });
    await step(`${name}: radial profile`, async () => {
        const details = of.locator("details.ffv-section");
        if ((await details.getAttribute("open")) === null) await press(details.locator("summary"));
        await of.getByRole("img", { name: /^Radial profile/ }).waitFor();
    });
}
await step("linked zoom", async () => {
    await press(page.getByText("Link zoom", { exact: true }));
    await press(pattern.getByLabel("Zoom in"));
    const [one, other] = [await display("pattern"), await display("scan")];
    await press(pattern.getByLabel("Show all"));
    return one.zoom.k === other.zoom.k && (await display("scan")).zoom === null;
});
await step("run exactly", () => follows("scan", () => press(page.locator("[data-exact]"))));
for (const [name, key, get] of [["W", "w", detector], ["A", "a", detector], ["S", "s", detector], ["D", "d", detector], ["]", "]", detector], ["[", "[", detector]]) {
    await step(`key ${name}`, () => changes(get, () => page.keyboard.press(key)));
}
await step("keys I J K L", async () => {
    await press(scan.locator("[data-kind=point]"));
    for (const key of ["i", "j", "K", "L"]) await changes(region, () => page.keyboard.press(key));
});
await step("key E", () => follows("scan", () => page.keyboard.press("e")));
await step("key X", async () => {
    await write(scan.locator("[data-field=high]"), 5);
    await scan.locator(".ffv-stage").focus();
    await page.keyboard.press("x");
    return (await display("scan")).auto;
});
await step("keys are listed", async () => {
    if (keyboard) await page.keyboard.press("?");
    else await press(page.getByLabel("Keys", { exact: true }).first());
    await page.locator("dialog[open]").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("dialog[open]").waitFor({ state: "detached" });
    await press(page.getByLabel("Keys", { exact: true }).first());
    await press(page.locator("dialog[open] button"));
    await page.locator("dialog[open]").waitFor({ state: "detached" });
});

for (const item of await page.locator("[data-export]").evaluateAll((all) => all.map((node) => node.dataset.export))) {
    if (["load", "link"].includes(item)) continue;
    await step(`export ${item}`, async () => {
        await press(page.locator(".ffv-export summary"));
        const [download] = await Promise.all([page.waitForEvent("download"), press(page.locator(`[data-export="${item}"]`))]);
        await page.locator(".ffv-export summary").focus();
        await page.keyboard.press("Escape");
        // Chromium stops pages that save ten files without a click in between, and overlooks one that takes no time.
        await page.locator("h1").click({ delay: 100 });
        const path = `${wanted.folder}/${wanted.by}-${item}-${download.suggestedFilename()}`;
        await download.saveAs(path);
        return path;
    });
}
await step("what was set is loaded", async () => {
    const saved = steps.done.find(({ name }) => name === "export state").found;
    const before = await state(page);
    await press(pattern.locator("[data-kind=ring]"));
    await press(page.locator(".ffv-export summary"));
    await give(page.locator('[data-export="load"]'), saved);
    await until(() => state(page), (now) => JSON.stringify(now.scan.query) === JSON.stringify(before.scan.query));
    await exact(page);
});
await step("the address has what was set", async () => {
    const before = await state(page);
    await noted(page);
    await page.reload();
    await exact(page);
    return JSON.stringify((await state(page)).scan.query) === JSON.stringify(before.scan.query);
});
await step("Tab comes to every control", async () => {
    const all = await page.evaluate(() => {
        const found = [...document.querySelectorAll("button, select, input, summary, [tabindex='0']")];
        const seen = found.filter((node) => node.checkVisibility() && !node.disabled && !node.closest("details:not([open]) > :not(summary)"));
        return seen.length;
    });
    await page.evaluate(() => {
        window.reached = new Set();
        document.addEventListener("focusin", ({ target }) => window.reached.add(target));
    });
    await page.locator("body").press("Tab");
    for (let i = 0; i < all + 10; i++) await page.keyboard.press("Tab");
    const reached = await page.evaluate(() => window.reached.size);
    if (reached < all) throw new Error(`${reached} of ${all}`);
    return all;
});
tell({ steps: steps.done, ...seen });

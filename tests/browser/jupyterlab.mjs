// The widget in JupyterLab: a cell makes it, the pointer and keys move its detector.
import { drawn, exact, follows, launch, open, painted, place, state, tell, until, wanted } from "./common.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url, { viewport: { width: 1400, height: 1400 } });
page.setDefaultTimeout(60_000);
// Before that, a cell that is run is not.
await page.getByText("| Idle").waitFor();
const cells = page.locator(".jp-Notebook .jp-Cell");
await cells.first().locator(".jp-InputArea-editor").click();
await page.keyboard.press("Control+Enter");
await page.locator(".ffv .ffv-pane-scan").waitFor().catch(async (error) => {
    const words = await page.locator(".jp-OutputArea-output, .jp-Dialog").allInnerTexts();
    if (wanted.folder) await page.screenshot({ path: `${wanted.folder}/jupyterlab.png` });
    throw new Error(`no widget: ${error}\n${words.join("\n")}\n${seen.errors.join("\n")}`);
});
await exact(page);
await page.locator(".ffv-panes").scrollIntoViewIfNeeded();
const shown = async () => ({ state: await state(page), scan: await drawn(page, "scan"), pattern: await drawn(page, "pattern") });
const found = { first: await shown(), cells: [await cells.count()] };

// By the pointer.
const { cy, cx } = found.first.state.scan.query.detector[0].shape;
const before = await painted(page);
const from = await place(page, "pattern", cy, cx);
await page.mouse.move(from.x, from.y);
await page.mouse.down();
await follows(page, "scan", async () => {
    for (let i = 1; i <= 8; i++) {
        const to = await place(page, "pattern", cy + i / 4, cx - i / 2);
        await page.mouse.move(to.x, to.y);
    }
});
await page.mouse.up();
await exact(page);
found.painted = (await painted(page)) - before;
found.dragged = await shown();

// By keys that are commands of JupyterLab elsewhere: cells above and below, and one less.
await page.locator('.ffv-pane-pattern [data-handle="centre"]').focus();
for (const key of ["a", "b", "m", "d", "d", "s", "x"]) await page.keyboard.press(key);
await until(() => state(page), (now) => now.scan.query.detector[0].shape.cy === found.dragged.state.scan.query.detector[0].shape.cy + 1);
await page.keyboard.press("ArrowRight");
await until(() => state(page), (now) => now.scan.query.detector[0].shape.cx === found.dragged.state.scan.query.detector[0].shape.cx + 2);
await exact(page);
found.keys = await shown();
found.cells.push(await cells.count());
found.kinds = await cells.evaluateAll((all) => all.map((cell) => cell.classList.contains("jp-CodeCell")));

// A function of the session.
await follows(page, "scan", () => page.getByLabel("Channel of the scan image").selectOption("own:total:intensity"));
found.own = await shown();
if (wanted.folder) await page.screenshot({ path: `${wanted.folder}/jupyterlab.png` });

// The kernel is restarted: what made the widget is gone.
await page.getByRole("menuitem", { name: "Kernel" }).first().click();
await page.getByText("Restart Kernel…").first().click();
await page.locator(".jp-Dialog button.jp-mod-accept").click();
const lost = page.locator(".ffv-lost:visible");
await lost.waitFor();
await page.getByLabel("Channel of the scan image").selectOption("max");
await page.locator(".ffv-pane-scan .ffv-badge[data-state=earlier]").waitFor();
await lost.getByRole("button").click();
found.lost = await until(() => lost.allTextContents(), ([words]) => words?.includes("The connection is lost"));
// The widget loads nothing from the server; JupyterLab asks for extensions that may not be there, such as /lsp/status.
const errors = seen.errors.filter((error) => !error.startsWith("Failed to load resource"));
tell({ ...found, ...seen, errors });

// Numbers of shapes that are typed, and what the shapes look like; masks that are too large.
import { exact, launch, open, place, set, state, tell, until, wanted } from "./common.mjs";
import { hands } from "./hands.mjs";

const browser = await launch();
const { page, seen } = await open(browser, wanted.url);
await exact(page);
const { write } = hands(page, false);
const pattern = page.locator(".ffv-pane-pattern");
const shape = async () => (await state(page)).scan.query.detector[0].shape;
const field = (name) => pattern.locator(`[data-field=${name}]`);
const draw = (...shapes) => set(page, { "scan.query.detector": shapes.map((shape) => ({ shape, sign: "plus" })) });
/** As it is drawn in the next frame. */
const outline = async () => {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    return pattern.locator(".ffv-shape .ffv-body").first().getAttribute("d");
};
const found = { typed: [] };

// In units: whole pixels of rectangles, and as large as the steps of each axis say.
await pattern.getByRole("button", { name: wanted.unit, exact: true }).click();
await draw({ kind: "rectangle", y0: 1, x0: 1, y1: 2, x1: 2 });
for (const value of wanted.columns) {
    await write(field("x1"), value);
    found.typed.push((await shape()).x1);
}
await draw({ kind: "lattice", cy: 12, cx: 10, a: [0, 4], b: [4, 0], r: 1, order: 1 });
found.lattice = {};
for (const name of ["cy", "cx", "a0", "a1", "b0", "b1", "r"]) {
    const label = await until(() => field(name).getAttribute("aria-label"), (label) => label !== null);
    found.lattice[name] = [Number(await field(name).inputValue()), /\((.*)\)/.exec(label)[1]];
}
await write(field("b0"), wanted.vector);
found.vector = (await shape()).b;
await draw({ kind: "lattice", cy: 12, cx: 0, a: [0, 0.6], b: [90, 0], r: 0.2, order: 1 });
await write(field("order"), 40);
found.order = [(await shape()).order, (await outline()).split("Z").length - 1];

// What is being typed stays while pictures come.
await draw({ kind: "disk", cy: 12, cx: 10, r: 3 });
const slowly = async (name, text) => {
    await field(name).focus();
    await field(name).press("Control+a");
    await page.keyboard.type(text[0]);
    await page.evaluate(() => document.querySelector(".ffv").framefold.load(document.querySelector(".ffv").framefold.state()));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await page.keyboard.type(text.slice(1));
    await page.keyboard.press("Enter");
};
await slowly("r", "4.5");
found.radius = (await shape()).r;

// A wedge from an angle to itself has no pixel; one of a whole turn is a ring.
const wedge = { kind: "wedge", cy: 12, cx: 10, ri: 2, ro: 6, from: 30 };
const arcs = async (to) => {
    await draw({ ...wedge, to });
    const d = await outline();
    return { circles: (d.match(/a/g) ?? []).length / 2, large: [...d.matchAll(/A\S+ \S+ 0 (\d)/g)].map(([, large]) => large).join("") };
};
found.wedges = { 30: await arcs(30), 120: await arcs(120), 300: await arcs(300), 390: await arcs(390) };
await draw({ ...wedge, from: 0, to: 90 });
await write(field("to"), 360);
found.turn = [(await shape()).from, (await shape()).to];

// A corner more is where the pointer is, not where it was before.
await draw({ kind: "polygon", points: [[3, 3], [3, 9], [9, 6]] }, { kind: "disk", cy: 17, cx: 12, r: 4 });
await pattern.locator('.ffv-shape [data-handle="p1"]').dblclick();
found.corners = [(await shape()).points.length];
const { x, y } = await place(page, "pattern", 17, 8);
await page.mouse.dblclick(x, y);
await page.locator(".ffv-pane-pattern .ffv-shape").nth(1).and(page.locator(".ffv-selected")).waitFor();
found.corners.push((await shape()).points.length);

await pattern.locator("input[type=file]").setInputFiles(wanted.mask);
const said = page.locator(".ffv-said:visible span");
await said.waitFor();
found.said = await said.textContent();
found.lost = await page.locator(".ffv-lost:visible").count();
tell({ ...found, ...seen });

// What all browser tests share: a browser, a page that may only ask its own viewer, and steps that are counted.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { FLAGS, FLAGS_WITHOUT_WEBGL } from "./flags.mjs";

/** What the test in Python wants of the script that runs. */
export let wanted = {};

const LIMIT_MS = 30_000;

const VIEWPORT = { width: 1280, height: 900 };

/** The browser that is there for all scripts. */
let shared;
/** Its pages that scripts have left, with nothing on them: to make one takes longer than most scripts. */
let idle = [];
/** What the script that runs has opened, and what it has found. */
let opened = [];
let found;

export function begin(of) {
    wanted = of;
    opened = [];
    found = undefined;
}

/** Closes what a script has left, and says what it found, or why it failed. */
export async function end(failed) {
    // What was in the middle of something is not used again.
    for (const one of opened.reverse()) await (failed === undefined && one.leave ? one.leave() : one.close()).catch(() => one.close().catch(() => {}));
    if (failed === undefined && found === undefined) failed = "it has not said what it found";
    return failed === undefined ? { found } : { failed };
}

/** The browser that is there for all scripts, or one without WebGL. */
export async function launch({ webgl = true } = {}) {
    if (webgl && shared?.isConnected()) return shared;
    const browser = await chromium.launch({ executablePath: wanted.chromium, args: webgl ? FLAGS : FLAGS_WITHOUT_WEBGL });
    if (webgl) [shared, idle] = [browser, []];
    else opened.push({ close: () => browser.close() });
    return browser;
}

/** A page with nothing on it, as new; it is left for others, or closed with the script, always if it is `changed` for good. */
async function blank(browser, { viewport = VIEWPORT, colorScheme = "light", reducedMotion = "no-preference", changed = false }) {
    const page = (browser === shared ? idle.pop() : undefined) ?? (await (await browser.newContext({ viewport: VIEWPORT, acceptDownloads: true })).newPage());
    const context = page.context();
    const close = async () => {
        await context.unrouteAll({ behavior: "ignoreErrors" });
        await context.close();
    };
    const leave = async () => {
        for (const what of ["console", "download", "pageerror", "websocket"]) page.removeAllListeners(what);
        await Promise.all(context.pages().map((other) => other !== page && other.close()));
        await page.goto("about:blank");
        await page.mouse.move(0, 0);
        await context.unrouteAll({ behavior: "ignoreErrors" });
        await context.clearCookies();
        await context.clearPermissions();
        idle.push(page);
    };
    opened.push(browser === shared && !changed ? { close, leave } : { close });
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme, reducedMotion });
    return { page, context };
}

/** A page; what it asks of other hosts is stopped and listed, and so is what it complains of. `onSocket` is given its sockets. */
export async function open(browser, url, options = {}) {
    const { page, context } = await blank(browser, options);
    const seen = { foreign: [], errors: [] };
    const own = new URL(url).host;
    await context.route("**", (route) => {
        const { protocol, host } = new URL(route.request().url());
        if (["data:", "blob:"].includes(protocol) || host === own) return route.continue();
        seen.foreign.push(route.request().url());
        return route.abort();
    });
    if (wanted.dist) {
        await context.route(/\/viewer\.(js|css)$/, (route) => {
            const name = route.request().url().split("/").pop();
            const contentType = name.endsWith("js") ? "text/javascript" : "text/css";
            return route.fulfill({ body: readFileSync(`${wanted.dist}/${name}`), contentType });
        });
    }
    page.on("websocket", (socket) => {
        if (new URL(socket.url()).host !== own) seen.foreign.push(socket.url());
        options.onSocket?.(socket);
    });
    page.on("pageerror", (error) => seen.errors.push(String(error)));
    page.on("console", (message) => {
        // What the driver of a software renderer says is no error of the page.
        if (message.type() === "error" && !message.text().includes("GL Driver")) seen.errors.push(message.text());
    });
    page.setDefaultTimeout(LIMIT_MS);
    await page.goto(url);
    return { page, seen, context };
}

/** How many pictures were painted after one that answers a newer question. */
export function stalePaints({ paints }) {
    const newest = { scan: 0, pattern: 0 };
    return paints.filter(({ pane, gen }) => {
        const stale = gen < newest[pane];
        newest[pane] = Math.max(newest[pane], gen);
        return stale;
    }).length;
}

/**
 * Waits until pictures are exact, of which more than `before` were painted, and the first one answers another question than
 * `gen`; gives the words of what failed. The page looks by itself, in one call, and draws no frames for that.
 */
export const exact = (page, panes = ["pattern", "scan"], before = -1, gen = null) =>
    page.evaluate(
        async ([panes, before, gen, limit]) => {
            const newest = ({ paints }) => paints.findLast(({ pane }) => pane === panes[0])?.gen;
            const painted = (counts) => counts.painted > before && (gen === null || newest(counts) !== gen);
            const shown = (selector) => [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility());
            const settled = (viewer, pane) => viewer.settled(pane) && shown(`.ffv-pane-${pane} .ffv-badge[data-state=exact]`).length > 0;
            const end = performance.now() + limit;
            for (;;) {
                const viewer = document.querySelector(".ffv")?.framefold;
                if (viewer && painted(viewer.counts()) && panes.every((pane) => settled(viewer, pane))) break;
                if (performance.now() > end) throw new Error(`not exact: ${shown(".ffv-state, .ffv-trouble").map((node) => node.innerText)}`);
                await new Promise((resolve) => setTimeout(resolve, 25));
            }
            return shown(".ffv-trouble").map((node) => node.textContent);
        },
        [panes, before, gen, LIMIT_MS],
    );

export const state = (page) => page.evaluate(() => JSON.parse(document.querySelector(".ffv").framefold.state()));
export const counts = (page) => page.evaluate(() => document.querySelector(".ffv").framefold.counts());
/** How many pictures were painted; not what `counts` has of each. */
export const painted = (page) => page.evaluate(() => document.querySelector(".ffv").framefold.counts().painted);
export const place = (page, pane, y, x) =>
    page.evaluate(([pane, y, x]) => document.querySelector(".ffv").framefold.place(pane, y, x), [pane, y, x]);

/** What a pane's canvas shows, RGBA in base64, and where on it the picture lies: for comparison with NumPy's. */
export const drawn = (page, pane) =>
    page.evaluate((pane) => {
        const viewer = document.querySelector(".ffv").framefold;
        const { x, y, k } = viewer.place(pane, 0, 0);
        const box = document.querySelector(`.ffv-pane-${pane} .ffv-stage`).getBoundingClientRect();
        const { width, height, data } = viewer.pixels(pane);
        let text = "";
        for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
        return { width, height, rgba: btoa(text), top: y - box.y, left: x - box.x, k };
    }, pane);

/** The state that the address has, as text: it follows what is set a little later. */
export const address = (page) => page.evaluate(() => atob((location.hash.slice(3) || "").replaceAll("-", "+").replaceAll("_", "/")));
/** Waits until the address has the questions of both panes: what is loaded again is what it has. */
export const noted = async (page) => {
    const questions = ({ scan, pattern }) => JSON.stringify([scan.query, pattern.query]);
    const now = questions(await state(page));
    await until(() => address(page), (text) => text !== "" && questions(JSON.parse(text)) === now);
};
export const inAddress = (page, part) => until(() => address(page), (text) => text.includes(part));

/** Sets entries of the state, each by its path. */
export const set = (page, changes) =>
    page.evaluate((changes) => {
        const viewer = document.querySelector(".ffv").framefold;
        const saved = JSON.parse(viewer.state());
        for (const [path, value] of Object.entries(changes)) {
            const keys = path.split(".");
            const last = keys.pop();
            keys.reduce((at, key) => at[key], saved)[last] = value;
        }
        viewer.load(JSON.stringify(saved));
    }, changes);

/** Does something after which a pane shows another picture, and waits until that is exact. */
export async function follows(page, pane, action) {
    const before = await page.evaluate(
        (pane) => document.querySelector(".ffv").framefold.counts().paints.findLast((paint) => paint.pane === pane)?.gen,
        pane,
    );
    await action();
    await exact(page, [pane], -1, before);
}

/** Steps with names: each runs, and says what went wrong. */
export class Steps {
    done = [];

    async step(name, action) {
        try {
            const found = await action();
            this.done.push({ name, ok: found !== false, found: found === undefined ? null : found });
        } catch (error) {
            this.done.push({ name, ok: false, found: String(error).slice(0, 400) });
            process.stderr.write(`${name}: ${String(error).slice(0, 200)}\n`);
        }
    }
}

/** Tells the test in Python what was found. */
export function tell(what) {
    found = what;
}

/** Waits until `check` holds of what `get` gives. */
export async function until(get, check, limit = 8_000) {
    const end = Date.now() + limit;
    for (;;) {
        const found = await get();
        if (check(found)) return found;
        if (Date.now() > end) throw new Error(`it stays ${JSON.stringify(found)}`.slice(0, 300));
        await new Promise((resolve) => setTimeout(resolve, 25));
    }
}

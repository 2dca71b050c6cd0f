// What a user has set: it is in the page's address, in saved files, and in exported scripts.

import type { Description, Opened, PatternQuery, Pane, Point, ScanQuery, Shape, Signed } from "./protocol.ts";
import type { Scale } from "./picture/limits.ts";
import type { Zoom } from "./picture/view.ts";

export interface Display {
    colormap: string;
    scale: Scale;
    gamma: number;
    /** The limits in use, in units of the data. */
    low: number;
    high: number;
    /** Whether the limits follow the picture, and by which percentiles. */
    auto: boolean;
    from: number;
    to: number;
    zoom: Zoom | null;
}
export interface PaneExtras {
    axes: boolean;
    scalebar: boolean;
    /** A line along which values are shown. */
    line: [Point, Point] | null;
}
export interface State extends Opened {
    version: 1;
    /** What the file is called; nothing in states that do not say it. */
    name: string;
    scan: { query: ScanQuery; display: Display } & PaneExtras;
    pattern: { query: PatternQuery; display: Display } & PaneExtras;
    linked: boolean;
    marks: boolean;
}

const extras = (): PaneExtras => ({ axes: false, scalebar: true, line: null });

function display(colormap: string, scale: Scale): Display {
    return { colormap, scale, gamma: 0.5, low: 0, high: 1, auto: true, from: 0.1, to: 99.9, zoom: null };
}

/** The sizes of the two axes that are drawn; of a line, one row. */
export function extent(description: Description, pane: Pane): [number, number] {
    const axes = pane === "scan" ? description.nav : description.sig;
    const cols = axes[axes.length - 1]?.size ?? 1;
    const rows = axes.length > 1 ? axes[axes.length - 2]!.size : 1;
    return [rows, cols];
}

/** What is shown first: a disk in the middle, and the mean pattern of all positions. */
export function firstState(description: Description): State {
    const [rows, cols] = extent(description, "pattern");
    const radius = Math.max(0.5, Math.round(Math.min(rows, cols) / 8));
    const shape: Shape =
        rows === 1
            ? { kind: "rectangle", y0: 0, x0: Math.floor(cols / 4), y1: 0, x1: Math.floor((3 * cols) / 4) }
            : { kind: "disk", cy: Math.floor(rows / 2), cx: Math.floor(cols / 2), r: radius };
    const slice = description.nav.slice(0, -2).map(() => 0);
    return {
        version: 1,
        name: "",
        file: null,
        nav_shape: null,
        sync_offset: null,
        scan: {
            query: { channel: { kind: "sum" }, detector: [{ shape, sign: "plus" }], slice, transform: "none" },
            display: display("gray", "linear"),
            ...extras(),
        },
        pattern: {
            query: { channel: { kind: "mean" }, region: [], slice: [...slice], transform: "none" },
            display: display("viridis", rows === 1 ? "linear" : "log"),
            ...extras(),
        },
        linked: false,
        marks: true,
    };
}

/** The shapes that a user draws on a pane's picture: a detector on the pattern, a region on the scan. */
export function shapesOn(state: State, pane: Pane): Signed[] {
    return pane === "pattern" ? state.scan.query.detector : state.pattern.query.region;
}

export function setShapesOn(state: State, pane: Pane, shapes: Signed[]): void {
    if (pane === "pattern") state.scan.query.detector = shapes;
    else state.pattern.query.region = shapes;
}

/** The pane whose picture changes with what is drawn on this one. */
export function otherPane(pane: Pane): Pane {
    return pane === "scan" ? "pattern" : "scan";
}

/** As it is sent and saved. */
export function toJson(state: State): string {
    return JSON.stringify(state);
}

/** For the address: JSON in base64 of the kind that addresses may have. */
export function toHash(state: State): string {
    const bytes = new TextEncoder().encode(toJson(state));
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return "#s=" + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The JSON of an address, if it has one. */
export function ofHash(hash: string): string | undefined {
    const found = /[#&]s=([\w-]+)/.exec(hash);
    if (!found) return undefined;
    const text = atob(found[1]!.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)));
}

/** A saved state where it fits; what it lacks is as in the beginning. Throws in words if it is none. */
export function ofJson(text: string, description: Description): State {
    let saved: Partial<State>;
    try {
        saved = JSON.parse(text) as Partial<State>;
    } catch {
        throw new Error("this is no saved state: it is not JSON");
    }
    if (typeof saved !== "object" || saved === null || saved.version !== 1) {
        throw new Error(`this is no saved state of this viewer: its version is ${JSON.stringify(saved?.version)}, expected 1`);
    }
    const state = firstState(description);
    for (const pane of ["scan", "pattern"] as const) {
        const given = saved[pane];
        if (typeof given !== "object" || given === null) continue;
        const into = state[pane];
        const n = into.query.slice.length;
        Object.assign(into.query, known(given.query, into.query));
        if (into.query.slice.length !== n) into.query.slice = Array<number>(n).fill(0);
        Object.assign(into.display, known(given.display, into.display));
        if (typeof given.axes === "boolean") into.axes = given.axes;
        if (typeof given.scalebar === "boolean") into.scalebar = given.scalebar;
        if (Array.isArray(given.line)) into.line = given.line;
    }
    if (typeof saved.linked === "boolean") state.linked = saved.linked;
    if (typeof saved.marks === "boolean") state.marks = saved.marks;
    if (typeof saved.name === "string") state.name = saved.name;
    if (typeof saved.file === "string") state.file = saved.file;
    if (Array.isArray(saved.nav_shape)) state.nav_shape = saved.nav_shape;
    if (typeof saved.sync_offset === "number") state.sync_offset = saved.sync_offset;
    return state;
}

/** Those entries of `given` that `like` has, of the same type. */
function known<T extends object>(given: unknown, like: T): Partial<T> {
    const found: Partial<T> = {};
    if (typeof given !== "object" || given === null) return found;
    for (const key of Object.keys(like) as (keyof T)[]) {
        const value = (given as T)[key];
        const same = Array.isArray(like[key]) === Array.isArray(value);
        if (value !== undefined && same && (typeof value === typeof like[key] || like[key] === null)) found[key] = value;
    }
    return found;
}

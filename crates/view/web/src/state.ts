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

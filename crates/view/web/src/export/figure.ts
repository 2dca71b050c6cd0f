// A picture for a paper: its pixels, the shapes on it, a scale bar and a colour bar, as a list of parts.

import { short } from "../dom.ts";
import { outline } from "../overlay/shapes.ts";
import { scaleBar } from "../overlay/scales.ts";
import { canvasOf, partsOf, valueAt } from "../picture/colour.ts";
import { isVector } from "../picture/decode.ts";
import { disk } from "../picture/wheel.ts";
import { View } from "../picture/view.ts";
import { shapesOn } from "../state.ts";
import type { Pane } from "../protocol.ts";
import type { Viewer } from "../viewer.ts";

export type Part =
    | { kind: "image"; canvas: HTMLCanvasElement; x: number; y: number; width: number; height: number }
    | { kind: "rect"; x: number; y: number; width: number; height: number; fill: string }
    | { kind: "path"; d: string; stroke: string; width: number; clip?: [number, number] }
    | { kind: "text"; x: number; y: number; words: string; anchor: "start" | "middle" | "end"; fill: string; halo: boolean };

export interface Figure {
    width: number;
    height: number;
    title: string;
    parts: Part[];
}

/** The longer side of a picture has at least so many points. */
const LEAST = 640;
/** Of a colour bar: `room` is for its numbers, more if these are longer. */
const BAR = { gap: 12, width: 14, room: 84, pad: 8 };
const DIGIT_WIDTH = 7.6;
/** How wide the disk of directions is, which vectors have in place of a colour bar. */
const WHEEL = 76;
/** Beside a picture there is so much room for numbers, however low it is; and over its scale bar. */
const LOWEST = WHEEL + 20;
const OVER_BAR = 32;

function drawn(rgba: Uint8ClampedArray<ArrayBuffer>, cols: number, rows: number): HTMLCanvasElement {
    const canvas = document.createElement("canvas");
    canvas.width = cols;
    canvas.height = rows;
    canvas.getContext("2d")!.putImageData(new ImageData(rgba, cols, rows), 0, 0);
    return canvas;
}

/** What a pane shows, all of it, with whole numbers of points for each pixel. */
export function figureOf(viewer: Viewer, pane: Pane): Figure {
    const panel = viewer.panels[pane];
    const picture = panel.stage.picture;
    if (!picture) throw new Error("there is no picture yet");
    if (!viewer.isCurrent(pane)) throw new Error("the picture is of earlier settings: wait for that of what is set, or run exactly");
    if (picture.line) throw new Error("a line has no picture; export its array");
    const norm = panel.norm();
    const lut = viewer.lutFor(pane);
    const [rows, cols] = viewer.whole(pane);
    const k = Math.max(1, Math.ceil(LEAST / Math.max(rows, cols)));
    const [height, width] = [rows * k, cols * k];
    const view = new View(rows, cols, height, width, null);
    const vector = isVector(picture);
    const marks = [0, 0.25, 0.5, 0.75, 1];
    const values = marks.map((t) => valueAt(t, norm));
    const apart = (i: number) => Math.abs((values[i] ?? Infinity) - (values[i - 1] ?? Infinity));
    const numbers = values.map((value, i) => short(value, 4, Math.min(apart(i), apart(i + 1))));
    const room = Math.max(BAR.room, BAR.width + 7 + DIGIT_WIDTH * Math.max(...numbers.map((words) => words.length)));
    const tall = Math.max(height, LOWEST);
    const white = (x: number, y: number): Part => ({ kind: "rect", x, y, width: width + BAR.gap + room + BAR.pad - x, height: tall + 2 * BAR.pad - y, fill: "#ffffff" });
    const parts: Part[] = [white(0, 0)];
    const at = BAR.pad;
    const [ky, kx] = picture.stride.map((stride) => stride * k) as [number, number];
    for (const part of partsOf(picture)) {
        const canvas = canvasOf(picture, lut, norm, part);
        parts.push({ kind: "image", canvas, x: part.col * kx, y: at + part.row * ky, width: part.cols * kx, height: part.rows * ky });
    }
    // The last pixels of a preview may stand for more than there is.
    parts.push(white(width, 0), white(0, at + height));
    if (!picture.axes) {
        for (const { shape, sign } of shapesOn(viewer.state, pane)) {
            const d = outline(shape, new View(rows, cols, height, width, null));
            parts.push({ kind: "path", d, stroke: "#000000", width: 3, clip: [width, height] }, { kind: "path", d, stroke: sign === "plus" ? "#ffd400" : "#5cc8ff", width: 1.5, clip: [width, height] });
        }
    }
    const axes = panel.axes();
    const { length, words } = scaleBar(view, axes);
    const [left, bottom] = [16, at + Math.max(height - 16, OVER_BAR)];
    parts.push(
        { kind: "rect", x: left - 1.5, y: bottom - 7.5, width: length + 3, height: 9, fill: "#000000" },
        { kind: "rect", x: left, y: bottom - 6, width: length, height: 6, fill: "#ffffff" },
        { kind: "text", x: left + length / 2, y: bottom - 14, words, anchor: "middle", fill: "#ffffff", halo: true },
    );
    if (picture.state !== "exact") parts.push({ kind: "text", x: 14, y: at + 18, words: picture.label, anchor: "start", fill: "#ffffff", halo: true });
    if (vector) {
        const [x, middle] = [width + BAR.gap, width + BAR.gap + WHEEL / 2];
        const { channel, transform } = viewer.state[pane].query;
        const unit = channel.kind === "com" && transform === "none" ? " px" : "";
        parts.push(
            { kind: "image", canvas: drawn(disk(lut, norm, WHEEL), WHEEL, WHEEL), x, y: at, width: WHEEL, height: WHEEL },
            { kind: "path", d: `M${middle} ${at + WHEEL - 2}v5`, stroke: "#000000", width: 1 },
            { kind: "text", x: middle, y: at + WHEEL + 16, words: short(norm.high) + unit, anchor: "middle", fill: "#000000", halo: false },
        );
    } else {
        const ramp = new Uint8ClampedArray(256 * 4);
        for (let i = 0; i < 256; i++) ramp.set([lut[3 * (255 - i)]!, lut[3 * (255 - i) + 1]!, lut[3 * (255 - i) + 2]!, 255], 4 * i);
        const x = width + BAR.gap;
        parts.push({ kind: "image", canvas: drawn(ramp, 1, 256), x, y: at, width: BAR.width, height: tall });
        for (const [i, t] of marks.entries()) {
            const y = at + tall * (1 - t);
            parts.push(
                { kind: "path", d: `M${x + BAR.width} ${y}h4`, stroke: "#000000", width: 1 },
                { kind: "text", x: x + BAR.width + 7, y: y + (t === 1 ? 11 : t === 0 ? 0 : 4), words: numbers[i]!, anchor: "start", fill: "#000000", halo: false },
            );
        }
    }
    return { width: width + BAR.gap + room, height: tall + 2 * BAR.pad, title: `${viewer.description.name}: ${pane}, ${picture.label}`, parts };
}

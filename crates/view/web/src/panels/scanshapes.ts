// Shapes that the scan may have, where the file does not say: each with the picture that it would make.

import { el, numberField } from "../dom.ts";
import { colours, greys } from "../picture/colour.ts";
import { isVector, scalars } from "../picture/decode.ts";
import type { Picture } from "../picture/decode.ts";
import { autoLimits } from "../picture/limits.ts";
import type { Viewer } from "../viewer.ts";

const THUMBNAIL = 112;

export class ScanShapes {
    readonly root: HTMLElement;
    private readonly canvases: { canvas: HTMLCanvasElement; shape: [number, number] }[] = [];

    constructor(viewer: Viewer) {
        const { suggested_shapes, nav } = viewer.description;
        this.root = el("section", { class: "ffv-scan-shapes", "aria-label": "Shape of the scan" });
        this.root.hidden = suggested_shapes.length === 0;
        if (this.root.hidden) return;
        const n = nav.reduce((product, { size }) => product * size, 1);
        const choices = suggested_shapes.slice(0, 12).map((shape) => {
            const canvas = el("canvas", { width: 1, height: 1, "aria-hidden": "true" });
            this.canvases.push({ canvas, shape });
            return el("button", { type: "button", class: "ffv-thumb", onclick: () => viewer.open(shape) }, canvas, el("span", {}, shape.join(" × ")));
        });
        let [rows, cols, offset] = [suggested_shapes[0]![0], suggested_shapes[0]![1], 0];
        const rowField = numberField("rows", "", 1, (value) => (rows = Math.max(1, Math.round(value))));
        const colField = numberField("columns", "", 1, (value) => (cols = Math.max(1, Math.round(value))));
        const offsetField = numberField("skip", "frames", 1, (value) => (offset = Math.round(value)));
        rowField.show(rows);
        colField.show(cols);
        offsetField.show(0);
        this.root.append(
            el("p", {}, el("strong", {}, "The file does not say what shape the scan has. "), `It has ${n} frames; choose what looks like your sample:`),
            el("div", { class: "ffv-thumbs" }, ...choices),
            el("div", { class: "ffv-row" },
                rowField.root,
                colField.root,
                offsetField.root,
                el("button", { type: "button", "data-open": "", onclick: () => viewer.open([rows, cols], offset) }, "Open with this shape"),
                el("button", { type: "button", onclick: () => (this.root.hidden = true) }, "It is a line"),
            ),
        );
    }

    /** A picture of the scan has come: thumbnails are drawn of it, if it has one number for each frame. */
    show(picture: Picture): void {
        if (this.root.hidden || !picture.line || picture.axes || isVector(picture)) return;
        const [low, high] = autoLimits(scalars(picture), "linear", 0.5, 99.5, false);
        const rgba = colours(picture, greys(), { low, high, scale: "linear", gamma: 1 });
        for (const { canvas, shape } of this.canvases) draw(canvas, rgba, picture, shape);
    }
}

/** One thumbnail: what lies under its points, and nothing between. */
function draw(canvas: HTMLCanvasElement, rgba: Uint8ClampedArray, picture: Picture, [rows, cols]: [number, number]): void {
    const k = Math.min(THUMBNAIL / rows, THUMBNAIL / cols);
    const [height, width] = [Math.max(1, Math.round(rows * k)), Math.max(1, Math.round(cols * k))];
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height);
    for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
            const frame = Math.floor((y + 0.5) / k) * cols + Math.floor((x + 0.5) / k);
            const from = Math.floor(frame / picture.stride[1]);
            if (from < picture.cols) image.data.set(rgba.subarray(4 * from, 4 * from + 4), 4 * (y * width + x));
        }
    }
    canvas.getContext("2d")!.putImageData(image, 0, 0);
}

// A line of values (a spectrum, or a scan along a line) in the place of a picture.

import { short, svg, update } from "../dom.ts";
import { position } from "../picture/colour.ts";
import type { Norm } from "../picture/colour.ts";
import type { Picture } from "../picture/decode.ts";
import type { View } from "../picture/view.ts";
import { Pen } from "./pen.ts";

const COLOURS = ["ffv-curve", "ffv-curve ffv-second"];
/** Above and below the curve. */
const MARGIN = 0.06;
/** So high are the numbers of the axis below. */
const BELOW = 26;

/** More points than this for each point of the screen are drawn as the range that they cover. */
function path(values: ArrayLike<number>, stride: number, view: View, height: (value: number) => number): string {
    const from = Math.max(0, Math.floor(view.px(0) / stride) - 1);
    const to = Math.min(values.length - 1, Math.ceil(view.px(view.width) / stride) + 1);
    const step = Math.max(1, Math.floor((to - from) / (2 * view.width)));
    const pen = new Pen();
    for (let i = from; i <= to; i += step) {
        let low = Infinity;
        let high = -Infinity;
        for (let j = i; j < Math.min(i + step, to + 1); j++) {
            const value = values[j]!;
            if (value < low) low = value;
            if (value > high) high = value;
        }
        if (low === Infinity) {
            pen.lift();
            continue;
        }
        const x = view.sx((i + (step - 1) / 2) * stride + (stride - 1) / 2);
        pen.to(x, height(low));
        if (high !== low) pen.to(x, height(high));
    }
    return pen.drawn();
}

export class Curve {
    private readonly paths = COLOURS.map((name) => svg("path", { class: name }));
    /** The values at the upper and the lower end. */
    private readonly ends = [0, 1].map(() => svg("text", { class: "ffv-over", x: 6 }));
    private drawn: unknown[] = [];

    constructor(root: SVGSVGElement) {
        root.append(...this.paths, svg("g", { class: "ffv-ends" }, ...this.ends));
    }

    draw(picture: Picture, view: View, norm: Norm): void {
        const key = [picture, view.k, view.ox, view.height, view.width, JSON.stringify(norm)];
        if (key.every((part, i) => part === this.drawn[i])) return;
        this.drawn = key;
        const height = (value: number) => view.height * (1 - MARGIN - position(value, norm) * (1 - 2 * MARGIN));
        this.paths.forEach((node, i) => {
            const plane = picture.planes[i];
            update(node, { d: plane ? path(plane, picture.stride[1], view, height) : "" });
        });
        const { low, high } = norm;
        const places = [Math.max(12, height(high) - 4), Math.min(view.height - BELOW, height(low) - 4)];
        this.ends.forEach((node, i) => update(node, { y: places[i]! }, short(i ? low : high, 4, high - low)));
    }

    clear(): void {
        if (this.drawn.length === 0) return;
        this.drawn = [];
        for (const node of this.paths) node.setAttribute("d", "");
        for (const node of this.ends) node.textContent = "";
    }
}

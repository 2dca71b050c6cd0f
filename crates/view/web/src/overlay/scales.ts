// Scale bar and axes over a picture, in calibrated units.

import { niceStep, short, svg } from "../dom.ts";
import type { Axis } from "../protocol.ts";
import type { View } from "../picture/view.ts";

/** Names that files give to units, as they are written. */
const WRITTEN: Record<string, string> = {
    um: "µm",
    micron: "µm",
    "1/nm": "nm⁻¹",
    "1 / nm": "nm⁻¹",
    "nm^-1": "nm⁻¹",
    "1/A": "Å⁻¹",
    "1/Å": "Å⁻¹",
    "A^-1": "Å⁻¹",
    "Å^-1": "Å⁻¹",
    A: "Å",
    angstrom: "Å",
    deg: "°",
};

/** Whether positions on an axis mean something other than pixels. */
export function isCalibrated(axis: Axis | undefined): axis is Axis {
    return axis !== undefined && axis.unit !== "" && axis.unit !== "px" && Number.isFinite(axis.scale) && axis.scale !== 0;
}

export function unitOf(axis: Axis | undefined): string {
    if (!isCalibrated(axis)) return "px";
    return WRITTEN[axis.unit] ?? axis.unit;
}

/** The value of a position on an axis. */
export function valueOn(axis: Axis | undefined, index: number): number {
    return isCalibrated(axis) ? axis.offset + index * axis.scale : index;
}

/** The same in words: those of neighbours differ. */
export function placeOn(axis: Axis | undefined, index: number): string {
    return short(valueOn(axis, index), 4, isCalibrated(axis) ? Math.abs(axis.scale) : 1);
}

/** Places on axes in words, with a unit for each, or for all if it is the same; none if no axis is calibrated. */
export function placeWords(axes: Axis[], at: number[]): string {
    if (!axes.some(isCalibrated)) return "";
    const units = axes.map(unitOf);
    const values = axes.map((axis, i) => placeOn(axis, at[i]!));
    if (new Set(units).size === 1) return `${values.join(", ")} ${units[0]}`;
    return values.map((value, i) => `${value} ${units[i]}`).join(", ");
}

/** How long a pixel is along rows and columns: in their unit if they share one, else in pixels. */
export function pixelSize(axes: Axis[]): { y: number; x: number; unit: string } {
    const x = axes[axes.length - 1];
    const y = axes[axes.length - 2] ?? x;
    if (!isCalibrated(y) || !isCalibrated(x) || unitOf(y) !== unitOf(x)) return { y: 1, x: 1, unit: "px" };
    return { y: Math.abs(y.scale), x: Math.abs(x.scale), unit: unitOf(x) };
}

/** How long a pixel is in all directions: in pixels where that differs, as circles are circles of pixels. */
export function radiusSize(axes: Axis[]): { size: number; unit: string } {
    const { y, x, unit } = pixelSize(axes);
    return Math.abs(y - x) <= 1e-3 * x ? { size: x, unit } : { size: 1, unit: "px" };
}

/** A bar of a round length along the columns, whole pixels without a unit: how long it is on the screen, and in words. */
export function scaleBar(view: View, axes: Axis[]): { length: number; words: string } {
    const [y, x] = [axes[axes.length - 2], axes[axes.length - 1]];
    const scale = isCalibrated(x) ? Math.abs(x.scale) : 1;
    const same = isCalibrated(y) === isCalibrated(x) && unitOf(y) === unitOf(x) && (!isCalibrated(y) || Math.abs(Math.abs(y.scale) - scale) <= 1e-3 * scale);
    // Where steps are as long along rows, narrow pictures have a bar for their height: it may be longer than they are wide.
    const seen = Math.min(view.width, (same ? Math.max(view.cols, view.rows) : view.cols) * view.k);
    const long = Math.max(isCalibrated(x) ? 0 : 1, niceStep(((seen * 0.28) / view.k) * scale));
    return { length: (long / scale) * view.k, words: `${short(long)} ${unitOf(x)}${y && !same ? ` (${x?.name || "x"})` : ""}` };
}

const DIGIT_WIDTH = 7.2;

export class Scales {
    private readonly bar = svg("g", { class: "ffv-scalebar" });
    private readonly ticks = svg("g", { class: "ffv-ticks" });
    private shown = "";

    constructor(root: SVGSVGElement) {
        root.append(this.ticks, this.bar);
    }

    draw(view: View, axes: Axis[], bar: boolean, ticks: boolean): void {
        const { oy, ox, k, rows, cols, height, width } = view;
        const key = JSON.stringify([oy, ox, k, rows, cols, height, width, axes, bar, ticks]);
        if (key === this.shown) return;
        this.shown = key;
        const x = axes[axes.length - 1];
        const y = axes[axes.length - 2];
        this.bar.replaceChildren(...(bar && !view.line ? this.barParts(view, axes, ticks) : []));
        this.ticks.replaceChildren(...(ticks ? [...tickParts(view, x, true), ...(view.line ? [] : tickParts(view, y, false))] : []));
    }

    private barParts(view: View, axes: Axis[], ticks: boolean): SVGElement[] {
        const { length, words } = scaleBar(view, axes);
        // A part of a pixel is seen.
        if (length > view.width) return [];
        const left = Math.max(0, view.sx(-0.5)) + (ticks ? 48 : 12);
        const bottom = Math.min(view.height, view.sy(view.rows - 0.5)) - (ticks ? 34 : 12);
        return [
            svg("rect", { class: "ffv-bar-halo", x: left - 1.5, y: bottom - 5.5, width: length + 3, height: 7 }),
            svg("rect", { class: "ffv-bar", x: left, y: bottom - 4, width: length, height: 4 }),
            svg("text", { class: "ffv-over", x: left + length / 2, y: bottom - 10, "text-anchor": "middle" }, words),
        ];
    }
}

function tickParts(view: View, axis: Axis | undefined, across: boolean): SVGElement[] {
    const scale = isCalibrated(axis) ? axis.scale : 1;
    const length = across ? view.width : view.height;
    const n = across ? view.cols : view.rows;
    const first = Math.max(-0.5, across ? view.px(0) : view.py(0));
    const last = Math.min(n - 0.5, across ? view.px(length) : view.py(length));
    const [a, b] = [valueOn(axis, first), valueOn(axis, last)];
    // Between pixels there is nothing to number.
    const stepOf = (room: number) => Math.max(isCalibrated(axis) ? 0 : 1, niceStep((room / view.k) * Math.abs(scale)));
    const widest = (step: number) => DIGIT_WIDTH * Math.max(...[a, b].map((value) => short(Math.round(value / step) * step, 4, step).length));
    let room = across ? 80 : 55;
    let step = stepOf(room);
    // Numbers beside each other have room.
    while (across && room < length && (step * view.k) / Math.abs(scale) < widest(step) + 10) step = stepOf((room *= 1.25));
    const parts: SVGElement[] = [];
    const edge = across
        ? Math.min(view.height, view.line ? view.height : view.sy(view.rows - 0.5))
        : Math.max(0, view.sx(-0.5));
    // Counted, as there are numbers to which 1 cannot be added; there are no more than have room.
    const begin = Math.ceil(Math.min(a, b) / step);
    const most = Math.min(Math.floor(Math.max(a, b) / step) - begin, length);
    let before = NaN;
    for (let i = 0; i <= most; i++) {
        const value = (begin + i) * step;
        if (value === before) continue;
        before = value;
        const index = (value - valueOn(axis, 0)) / scale;
        const at = across ? view.sx(index) : view.sy(index);
        const words = short(value, 4, step);
        const width = DIGIT_WIDTH * words.length;
        if (across) {
            const x = Math.min(view.width - width / 2, Math.max(width / 2, at));
            parts.push(svg("path", { d: `M${at} ${edge}v-6` }), svg("text", { class: "ffv-over", x, y: edge - 9, "text-anchor": "middle" }, words));
        } else {
            parts.push(svg("path", { d: `M${edge} ${at}h6` }));
            // The corner is for the numbers of the other axis, and a wide number would meet the name of this one.
            const [top, bottom] = [Math.max(0, view.sy(-0.5)), Math.min(view.height, view.sy(view.rows - 0.5))];
            const free = at < bottom - 24 && (at > top + 24 || width < 28);
            if (free) parts.push(svg("text", { class: "ffv-over", x: edge + 9, y: Math.max(at + 4, top + 12) }, words));
        }
    }
    const words = `${axis?.name ?? (across ? "x" : "y")} (${unitOf(axis)})`;
    parts.push(
        across
            ? svg("text", { class: "ffv-over", x: Math.min(view.width, view.sx(view.cols - 0.5)) - 4, y: edge - 24, "text-anchor": "end" }, words)
            : svg("text", { class: "ffv-over", x: edge + 40, y: Math.max(0, view.line ? 0 : view.sy(-0.5)) + 14 }, words),
    );
    return parts;
}

// From values to colours: the same arithmetic in the shader (gl.ts) and here.

import type { Scale } from "./limits.ts";
import type { Picture } from "./decode.ts";
import { isVector } from "./decode.ts";

/** Between which values, and how, colours are spread. */
export interface Norm {
    low: number;
    high: number;
    scale: Scale;
    gamma: number;
}

/** 256 × RGB. */
export type Lut = Uint8Array;

/** The table of a colour map in base64. */
export function lutOf(base64: string): Lut {
    const text = atob(base64);
    const table = new Uint8Array(768);
    for (let i = 0; i < 768; i++) table[i] = text.charCodeAt(i);
    return table;
}

/** Shades of grey, if there is no table. */
export function greys(): Lut {
    return Uint8Array.from({ length: 768 }, (_, i) => Math.floor(i / 3));
}

/** The logarithm of `value / low`, also of large values with small differences. */
export function logRatio(value: number, low: number): number {
    const above = (value - low) / low;
    return above < 1 ? Math.log1p(above) : Math.log(value) - Math.log(low);
}

/** Where a value lies between the limits, from 0 to 1, on the scale. */
export function position(value: number, { low, high, scale, gamma }: Norm): number {
    if (scale === "log") return value <= low ? 0 : Math.min(1, logRatio(value, low) / logRatio(high, low));
    const linear = Math.min(1, Math.max(0, (value - low) / (high - low)));
    if (scale === "sqrt") return Math.sqrt(linear);
    return scale === "power" ? linear ** gamma : linear;
}

/** The value at a position: the inverse. */
export function valueAt(t: number, { low, high, scale, gamma }: Norm): number {
    if (scale === "log") return low * (high / low) ** t;
    const linear = scale === "sqrt" ? t * t : scale === "power" ? t ** (1 / gamma) : t;
    return low + (high - low) * linear;
}

/** The entry of the table for a position. */
export function entry(t: number): number {
    return Math.min(255, Math.floor(t * 256));
}

/** The direction of a vector as an entry of a cyclic table: 0 is +x, 64 is +y (down). */
export function direction(y: number, x: number): number {
    const turn = Math.atan2(y, x) / (2 * Math.PI);
    return Math.floor((turn - Math.floor(turn)) * 256) & 255;
}

/** Some rows and columns of a picture. */
export interface Part {
    row: number;
    col: number;
    rows: number;
    cols: number;
}

/** Canvases may be no larger than a browser allows: parts are not, along rows and columns. */
const MOST = 4096;

/** A picture in parts that a canvas can hold. */
export function partsOf({ rows, cols }: Picture): Part[] {
    const parts: Part[] = [];
    for (let row = 0; row < rows; row += MOST) {
        for (let col = 0; col < cols; col += MOST) parts.push({ row, col, rows: Math.min(MOST, rows - row), cols: Math.min(MOST, cols - col) });
    }
    return parts;
}

/** A part of a picture on a canvas. */
export function canvasOf(picture: Picture, lut: Lut, norm: Norm, part: Part): HTMLCanvasElement {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [part.cols, part.rows];
    canvas.getContext("2d")!.putImageData(new ImageData(colours(picture, lut, norm, part), part.cols, part.rows), 0, 0);
    return canvas;
}

/** A picture, or a part of it, as RGBA; transparent where there is no data. */
export function colours(picture: Picture, lut: Lut, norm: Norm, part: Part = { row: 0, col: 0, rows: picture.rows, cols: picture.cols }): Uint8ClampedArray<ArrayBuffer> {
    const n = part.rows * part.cols;
    const rgba = new Uint8ClampedArray(4 * n);
    const vector = isVector(picture);
    const first = picture.planes[0]!;
    const second = picture.planes[1];
    for (let i = 0, from = part.row * picture.cols + part.col; i < n; i++, from++) {
        if (i > 0 && i % part.cols === 0) from += picture.cols - part.cols;
        const value = first[from]!;
        if (Number.isNaN(value)) continue;
        let brightness = 1;
        let at: number;
        if (vector) {
            const x = second![from]!;
            if (Number.isNaN(x)) continue;
            brightness = position(Math.hypot(value, x), norm);
            at = 3 * direction(value, x);
        } else {
            at = 3 * entry(position(value, norm));
        }
        rgba[4 * i] = Math.floor(lut[at]! * brightness + 0.5);
        rgba[4 * i + 1] = Math.floor(lut[at + 1]! * brightness + 0.5);
        rgba[4 * i + 2] = Math.floor(lut[at + 2]! * brightness + 0.5);
        rgba[4 * i + 3] = 255;
    }
    return rgba;
}

// The colours of directions: a cyclic table whose lightness hardly changes, so that brightness can mean length.

import { direction, position } from "./colour.ts";
import type { Lut, Norm } from "./colour.ts";

let table: Lut | undefined;

/** 256 colours of equal lightness around OKLCH's circle of hues, clipped to what screens show. */
export function wheel(): Lut {
    if (table) return table;
    table = new Uint8Array(768);
    for (let i = 0; i < 256; i++) {
        // +x is at 40°, an orange red; the turn goes through yellow, green and blue.
        const hue = ((40 + (i / 256) * 360) * Math.PI) / 180;
        table.set(oklch(0.76, 0.145, hue), 3 * i);
    }
    return table;
}

/** A disk of vectors as RGBA, `size` pixels wide: the colour of each direction, up to the upper limit at the edge. */
export function disk(lut: Lut, norm: Norm, size: number): Uint8ClampedArray<ArrayBuffer> {
    const rgba = new Uint8ClampedArray(4 * size * size);
    const middle = (size - 1) / 2;
    for (let i = 0; i < size * size; i++) {
        const [y, x] = [Math.floor(i / size) - middle, (i % size) - middle];
        const length = Math.hypot(y, x) / (size / 2 - 2);
        if (length > 1) continue;
        const brightness = position(length * norm.high, norm);
        const at = 3 * direction(y, x);
        rgba.set([lut[at]! * brightness, lut[at + 1]! * brightness, lut[at + 2]! * brightness, 255], 4 * i);
    }
    return rgba;
}

/** Björn Ottosson: A perceptual color space for image processing (2020), <https://bottosson.github.io/posts/oklab>. */
function oklch(lightness: number, chroma: number, hue: number): [number, number, number] {
    const [a, b] = [chroma * Math.cos(hue), chroma * Math.sin(hue)];
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    return linear.map((value) => {
        const v = Math.min(1, Math.max(0, value));
        return Math.round(255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055));
    }) as [number, number, number];
}

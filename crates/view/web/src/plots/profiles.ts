// Profiles of the picture that is held: along radii, and along a line.

import type { Plane } from "../picture/decode.ts";
import type { Point } from "../protocol.ts";

export interface Profile {
    /** Where each value is, in pixels. */
    x: Float64Array;
    /** NaN where there is none. */
    y: Float64Array;
}

/** Values of a picture, at pixels of the whole one. */
export interface Field {
    values: Plane;
    rows: number;
    cols: number;
    stride: [number, number];
}

/** The mean in rings of one pixel about (cy, cx): those with n − ½ ≤ distance < n + ½ at n. */
export function radial({ values, rows, cols, stride: [sy, sx] }: Field, cy: number, cx: number): Profile {
    const far = Math.hypot(Math.max(cy, rows * sy - 1 - cy), Math.max(cx, cols * sx - 1 - cx));
    const n = Math.max(1, Math.min(20000, Math.floor(far + 0.5) + 1));
    const sums = new Float64Array(n);
    const counts = new Float64Array(n);
    for (let i = 0; i < rows; i++) {
        // A pixel of a preview stands for the pixels from its place on.
        const dy = i * sy + (sy - 1) / 2 - cy;
        for (let j = 0; j < cols; j++) {
            const value = values[i * cols + j]!;
            if (value !== value) continue;
            const dx = j * sx + (sx - 1) / 2 - cx;
            const ring = Math.floor(Math.sqrt(dy * dy + dx * dx) + 0.5);
            if (ring >= n) continue;
            sums[ring]! += value;
            counts[ring]!++;
        }
    }
    const y = sums.map((sum, ring) => sum / counts[ring]!);
    return { x: Float64Array.from({ length: n }, (_, ring) => ring), y };
}

/** Values along a line, a pixel apart, each between its four neighbours. */
export function along({ values, rows, cols, stride: [sy, sx] }: Field, [from, to]: [Point, Point]): Profile {
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    const n = Math.max(2, Math.min(20000, Math.round(length) + 1));
    const x = new Float64Array(n);
    const y = new Float64Array(n);
    const at = (i: number, j: number) => (i < 0 || j < 0 || i >= rows || j >= cols ? NaN : values[i * cols + j]!);
    for (let step = 0; step < n; step++) {
        const t = step / (n - 1);
        x[step] = t * length;
        const row = (from[0] + (to[0] - from[0]) * t - (sy - 1) / 2) / sy;
        const col = (from[1] + (to[1] - from[1]) * t - (sx - 1) / 2) / sx;
        const [i, j] = [Math.floor(row), Math.floor(col)];
        const [b, a] = [row - i, col - j];
        let value = 0;
        for (const [di, dj, weight] of [
            [0, 0, (1 - b) * (1 - a)],
            [0, 1, (1 - b) * a],
            [1, 0, b * (1 - a)],
            [1, 1, b * a],
        ] as const) {
            if (weight > 0) value += weight * at(i + di, j + dj);
        }
        y[step] = value;
    }
    return { x, y };
}

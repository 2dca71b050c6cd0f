// Pictures as they come: planes of numbers, dequantised.

import type { Axis, PictureHead, Quality } from "../protocol.ts";

export type Plane = Float32Array | Float64Array;

export interface Picture {
    gen: number;
    planes: Plane[];
    names: string[];
    rows: number;
    cols: number;
    /** Whether it is a line: one row. */
    line: boolean;
    /** How many rows and columns of the whole one of these stands for. */
    stride: [number, number];
    state: Quality;
    label: string;
    progress: number;
    /** Its axes, where they are not those of the scan or the frame. */
    axes: Axis[] | null;
    bytes: number;
}

const SIZES = { u8: 1, u16: 2, f32: 4, f64: 8 } as const;

function at(values: number | number[] | undefined, plane: number, otherwise: number): number {
    return (Array.isArray(values) ? values[plane] : values) ?? otherwise;
}

function dequantise(codes: Uint8Array | Uint16Array, none: number, scale: number, offset: number): Float64Array {
    const values = new Float64Array(codes.length);
    for (let i = 0; i < codes.length; i++) {
        const code = codes[i]!;
        values[i] = code === none ? NaN : offset + scale * code;
    }
    return values;
}

/** The picture of a message, whose planes begin at `start`. */
export function decode(head: PictureHead, body: ArrayBuffer, start: number): Picture {
    const rows = head.shape.length > 1 ? head.shape[0]! : 1;
    const cols = head.shape[head.shape.length - 1] ?? 1;
    const n = rows * cols;
    const size = SIZES[head.dtype];
    if (size === undefined || body.byteLength - start < n * size * head.planes.length) {
        throw new Error(`the picture has ${body.byteLength - start} bytes, too few for ${head.planes.length} × ${rows} × ${cols} of ${head.dtype}`);
    }
    const planes = head.planes.map((_, plane): Plane => {
        const from = start + plane * n * size;
        const aligned = from % size === 0;
        const bytes = aligned ? body : body.slice(from, from + n * size);
        const begin = aligned ? from : 0;
        switch (head.dtype) {
            case "f64":
                return new Float64Array(bytes, begin, n);
            case "f32":
                return new Float32Array(bytes, begin, n);
            case "u8":
                return dequantise(new Uint8Array(bytes, begin, n), 255, at(head.scale, plane, 1), at(head.offset, plane, 0));
            case "u16":
                return dequantise(new Uint16Array(bytes, begin, n), 65535, at(head.scale, plane, 1), at(head.offset, plane, 0));
        }
    });
    return {
        gen: head.gen,
        planes,
        names: head.planes,
        rows,
        cols,
        line: head.shape.length < 2,
        stride: head.stride,
        state: head.state,
        label: head.label,
        progress: head.progress,
        axes: head.axes ?? null,
        bytes: body.byteLength,
    };
}

/** Whether it is a vector at each pixel. */
export function isVector(picture: Picture): boolean {
    return picture.planes.length === 2;
}

/** What limits and histograms are of: the values, or the lengths of vectors. */
export function scalars(picture: Picture): Plane {
    if (!isVector(picture)) return picture.planes[0]!;
    const [y, x] = picture.planes as [Plane, Plane];
    const lengths = new Float64Array(y.length);
    for (let i = 0; i < lengths.length; i++) lengths[i] = Math.hypot(y[i]!, x[i]!);
    return lengths;
}

// The messages between viewer and client, as crates/view/PROTOCOL.md has them.

export type Pane = "scan" | "pattern";
export type Wish = "fast" | "exact";
export type Precision = "u8" | "u16" | "f32" | "f64";
export type Quality = "preview" | "binned" | "partial" | "exact";
/** (y, x) in pixels. */
export type Point = [number, number];

export type Shape =
    | { kind: "point"; y: number; x: number }
    | { kind: "disk"; cy: number; cx: number; r: number }
    | { kind: "ring"; cy: number; cx: number; ri: number; ro: number }
    | { kind: "wedge"; cy: number; cx: number; ri: number; ro: number; from: number; to: number }
    | { kind: "rectangle"; y0: number; x0: number; y1: number; x1: number }
    | { kind: "polygon"; points: Point[] }
    | { kind: "lattice"; cy: number; cx: number; a: Point; b: Point; r: number; order: number }
    | { kind: "array"; id: number };
export type ShapeKind = Shape["kind"];
export interface Signed {
    shape: Shape;
    sign: "plus" | "minus";
}

export type Centre = "mean" | { at: Point };
export type ComPart = "vector" | "magnitude" | "y" | "x" | "divergence" | "curl";
export interface Vectors {
    centre: Centre;
    rotation: number;
    flip_y: boolean;
}
export type ScanChannel =
    | { kind: "sum" | "mean" | "std" | "max" }
    | ({ kind: "com"; part: ComPart } & Vectors)
    | ({ kind: "idpc" } & Vectors)
    | { kind: "own"; name: string; buffer: string };
export type PatternChannel =
    | { kind: "sum" | "mean" | "std" | "max" }
    | { kind: "own"; name: string; buffer: string };
export type Transform = "none" | "fft" | "ewpc";

export interface ScanQuery {
    channel: ScanChannel;
    detector: Signed[];
    slice: number[];
    transform: Transform;
}
export interface PatternQuery {
    channel: PatternChannel;
    region: Signed[];
    slice: number[];
    transform: Transform;
}

export type Query = ({ pane: "scan" } & ScanQuery) | ({ pane: "pattern" } & PatternQuery);

export interface Axis {
    name: string;
    size: number;
    scale: number;
    offset: number;
    unit: string;
}
export interface OwnFunction {
    name: string;
    nav: string[];
    sig: string[];
}
export interface Description {
    name: string;
    format: string;
    dtype: string;
    nav: Axis[];
    sig: Axis[];
    warnings: string[];
    excluded: number[];
    n_missing: number;
    suggested_shapes: [number, number][];
    own: OwnFunction[];
}

/** What `open` takes to show the same again. */
export interface Opened {
    /** The number of the file, if there is a list of files. */
    file: string | null;
    /** How the scan is laid out, where that was chosen. */
    nav_shape: number[] | null;
    sync_offset: number | null;
}
export interface Hello {
    type: "hello";
    version: number;
    description: Description;
    opened?: Opened;
    /** Name → 256 × RGB in base64. */
    colormaps: Record<string, string>;
    /** Their order, the default first. */
    colormap_names?: string[];
    features?: string[];
    /** What is shown first, of another client's. */
    state?: unknown;
    id?: number;
}
export interface PictureHead {
    type: "picture";
    pane: Pane;
    gen: number;
    dtype: Precision;
    planes: string[];
    shape: number[];
    stride: [number, number];
    state: Quality;
    label: string;
    progress: number;
    scale?: number | number[];
    offset?: number | number[];
    axes?: Axis[] | null;
}
export interface FileHead {
    type: "file";
    id: number;
    name: string;
    media_type: string;
}
export interface Listing {
    name: string;
    parent?: string | null;
    entries: { id: string; name: string; kind: "file" | "folder"; bytes: number }[];
    more: boolean;
}
export type Received =
    | Hello
    | PictureHead
    | FileHead
    | { type: "done"; pane: Pane; gen: number }
    | { type: "error"; pane?: Pane; gen?: number; id?: number; message: string; hint?: string | null; kind?: string }
    | { type: "progress"; what: string; state: "working" | "done" | "stopped" | "failed"; done: number; label: string }
    | { type: "guess"; id: number; cy?: number; cx?: number; r?: number; rotation?: number; flip_y?: boolean }
    | ({ type: "files"; id: number } & Listing)
    | { type: "mask"; id: number; mask: number; shape: number[] };

const MAGIC = 0x31564646; // `FFV1`, little-endian.

/** Takes a binary message apart: its JSON, and the bytes after that. */
export function unpack(buffer: ArrayBuffer): { head: Received; body: ArrayBuffer; at: number } {
    const view = new DataView(buffer);
    if (buffer.byteLength < 8 || view.getUint32(0, true) !== MAGIC) {
        throw new Error("the viewer sent bytes that are no message of it");
    }
    const length = view.getUint32(4, true);
    const text = new TextDecoder().decode(new Uint8Array(buffer, 8, length));
    return { head: JSON.parse(text) as Received, body: buffer, at: 8 + length };
}

/** Puts a binary message together, with the body at a multiple of 8. */
export function pack(head: object, body: Uint8Array): ArrayBuffer {
    let json = new TextEncoder().encode(JSON.stringify(head));
    const padding = (8 - ((8 + json.length) % 8)) % 8;
    const buffer = new ArrayBuffer(8 + json.length + padding + body.length);
    const view = new DataView(buffer);
    view.setUint32(0, MAGIC, true);
    view.setUint32(4, json.length + padding, true);
    const bytes = new Uint8Array(buffer);
    bytes.fill(0x20, 8, 8 + json.length + padding);
    bytes.set(json, 8);
    bytes.set(body, 8 + json.length + padding);
    return buffer;
}

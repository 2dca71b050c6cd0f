// Saved states as they are read: of addresses and files, which others may have written.

import type { Description, ShapeKind } from "./protocol.ts";
import { firstState } from "./state.ts";
import type { State } from "./state.ts";

/** Whether a value is what an entry holds, and what that is in words. */
interface Check {
    is(value: unknown): boolean;
    words: string;
}
type Entries = Record<string, Check>;

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const number: Check = { is: Number.isFinite, words: "a number" };
const whole: Check = { is: Number.isSafeInteger, words: "a whole number" };
const size: Check = { is: (value) => whole.is(value) && (value as number) > 0, words: "sizes" };
const index: Check = { is: (value) => whole.is(value) && (value as number) >= 0, words: "indices" };
const positive: Check = { is: (value) => number.is(value) && (value as number) > 0, words: "a number above 0" };
const truth: Check = { is: (value) => typeof value === "boolean", words: "true or false" };
const text: Check = { is: (value) => typeof value === "string", words: "a text" };
const oneOf = (...names: string[]): Check => ({ is: (value) => names.includes(value as string), words: `one of ${names.join(", ")}` });
const orNull = (of: Check): Check => ({ is: (value) => value === null || of.is(value), words: `${of.words} or null` });
const optional = (of: Check): Check => ({ is: (value) => value === undefined || of.is(value), words: of.words });
const list = (of: Check, n?: number): Check => ({
    is: (value) => Array.isArray(value) && (n === undefined || value.length === n) && value.every(of.is),
    words: n === undefined ? `a list of ${of.words}` : `${n} times ${of.words}`,
});
const record = (entries: Entries, words: string): Check => ({
    is: (value) => isObject(value) && Object.entries(entries).every(([name, check]) => check.is(value[name])),
    words,
});
/** Records whose `kind` says which entries they have. */
const byKind = (kinds: Record<string, Entries>, words: string): Check => ({
    is: (value) => isObject(value) && Object.hasOwn(kinds, String(value.kind)) && record(kinds[String(value.kind)]!, words).is(value),
    words: `${words}, of the kinds ${Object.keys(kinds).join(", ")}`,
});

const point = list(number, 2);
const circle = { cy: number, cx: number, r: number };
const ring = { cy: number, cx: number, ri: number, ro: number };
const SHAPES: Record<ShapeKind, Entries> = {
    point: { y: number, x: number },
    disk: circle,
    ring,
    wedge: { ...ring, from: number, to: number },
    rectangle: { y0: number, x0: number, y1: number, x1: number },
    polygon: { points: list(point) },
    lattice: { ...circle, a: point, b: point, order: index },
    array: { id: index },
};
const shapes = list(record({ shape: byKind(SHAPES, ""), sign: oneOf("plus", "minus") }, "shapes of known kinds, each with a sign"));

const centre: Check = { is: (value) => value === "mean" || record({ at: point }, "").is(value), words: "a centre" };
const vectors = { centre: optional(centre), rotation: optional(number), flip_y: optional(truth) };
const plain = { sum: {}, mean: {}, std: {}, max: {}, own: { name: text, buffer: text } };
const part = optional(oneOf("vector", "magnitude", "y", "x", "divergence", "curl"));
const CHANNELS = {
    scan: byKind({ ...plain, com: { ...vectors, part }, idpc: vectors }, "a channel"),
    pattern: byKind(plain, "a channel"),
};
/** What a channel of vectors is without further words. */
const VECTORS = { part: "vector", centre: "mean", rotation: 0, flip_y: false };

const DISPLAY: Entries = {
    colormap: text,
    scale: oneOf("linear", "log", "sqrt", "power"),
    gamma: positive,
    low: number,
    high: number,
    auto: truth,
    from: number,
    to: number,
    zoom: orNull(record({ k: positive, cy: number, cx: number }, "a zoom")),
};
const EXTRAS: Entries = { axes: truth, scalebar: truth, line: orNull(list(point, 2)) };
const STATE: Entries = {
    linked: truth,
    marks: truth,
    name: text,
    file: orNull(text),
    nav_shape: orNull(list(size)),
    sync_offset: orNull(whole),
};

/** The JSON of an address, if it has one. Throws in words if it cannot be read. */
export function ofHash(hash: string): string | undefined {
    const found = /[#&]s=([\w-]+)/.exec(hash);
    if (!found) return undefined;
    try {
        const bytes = atob(found[1]!.replaceAll("-", "+").replaceAll("_", "/"));
        return new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
    } catch {
        throw new Error("the address holds no saved state: a part of it is missing; copy it anew");
    }
}

/** A saved state where it fits; what it lacks is as in the beginning. Throws in words if it is none. */
export function ofJson(json: string, description: Description): State {
    let saved: unknown;
    try {
        saved = JSON.parse(json);
    } catch {
        throw new Error("this is no saved state: it is not JSON");
    }
    const version = isObject(saved) ? saved.version : undefined;
    if (!isObject(saved) || version !== 1) {
        throw new Error(`this is no saved state of this viewer: its version is ${JSON.stringify(version)}, expected 1`);
    }
    const state = firstState(description);
    take(state, saved, STATE, "");
    for (const pane of ["scan", "pattern"] as const) {
        const into = state[pane];
        const given = inner(saved, pane, "");
        const query = { channel: CHANNELS[pane], [pane === "scan" ? "detector" : "region"]: shapes, slice: list(index), transform: oneOf("none", "fft", "ewpc") };
        const n = into.query.slice.length;
        take(into, given, EXTRAS, `${pane}.`);
        take(into.query, inner(given, "query", `${pane}.`), query, `${pane}.query.`);
        take(into.display, inner(given, "display", `${pane}.`), DISPLAY, `${pane}.display.`);
        if (into.query.slice.length !== n) into.query.slice = Array<number>(n).fill(0);
        const { channel } = into.query;
        if (channel.kind === "com" || channel.kind === "idpc") {
            const { part, ...others } = VECTORS;
            into.query.channel = { ...(channel.kind === "com" ? { part } : {}), ...others, ...channel } as typeof channel;
        }
    }
    return state;
}

/** An object in a saved one, or one without entries. */
function inner(given: Record<string, unknown>, name: string, path: string): Record<string, unknown> {
    const value = given[name] ?? {};
    if (!isObject(value)) throw odd(path + name, value, "an object");
    return value;
}

/** Takes those entries that a saved object has. */
function take(into: object, given: Record<string, unknown>, entries: Entries, path: string): void {
    for (const [name, check] of Object.entries(entries)) {
        const value = given[name];
        if (value === undefined) continue;
        if (!check.is(value)) throw odd(path + name, value, check.words);
        Object.assign(into, { [name]: value });
    }
}

function odd(path: string, value: unknown, words: string): Error {
    const found = JSON.stringify(value);
    return new Error(`this is no saved state of this viewer: ${path} is ${found.length > 80 ? `${found.slice(0, 80)}…` : found}, expected ${words}`);
}

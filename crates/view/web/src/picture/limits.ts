// Limits of contrast, and what they are found from: percentiles and histograms.

import type { Plane } from "./decode.ts";

export type Scale = "linear" | "log" | "sqrt" | "power";

/** More values than this are thinned out before they are sorted, while the pointer waits. */
const MOST_SORTED = 1 << 16;

export interface Statistics {
    min: number;
    max: number;
    /** NaN if there is none. */
    smallestPositive: number;
    n: number;
    mean: number;
}

/** Over all values that are numbers. */
export function statistics(values: Plane): Statistics {
    let min = Infinity;
    let max = -Infinity;
    let positive = Infinity;
    let sum = 0;
    let n = 0;
    for (let i = 0; i < values.length; i++) {
        const value = values[i]!;
        if (value - value !== 0) continue; // NaN and infinities.
        if (value < min) min = value;
        if (value > max) max = value;
        if (value > 0 && value < positive) positive = value;
        sum += value;
        n++;
    }
    if (n === 0) return { min: 0, max: 1, smallestPositive: NaN, n: 0, mean: NaN };
    return { min, max, smallestPositive: positive === Infinity ? NaN : positive, n, mean: sum / n };
}

/** The golden ratio less 1: its multiples are spread evenly, and keep step with no rows or columns. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Sorted values, all of them or evenly thinned out. */
export function sorted(values: Plane): Float64Array {
    const all = values.length <= MOST_SORTED;
    const kept = new Float64Array(all ? values.length : MOST_SORTED);
    let n = 0;
    for (let i = 0; i < kept.length; i++) {
        const value = values[all ? i : Math.floor(((i * GOLDEN) % 1) * values.length)]!;
        if (value - value === 0) kept[n++] = value;
    }
    return kept.subarray(0, n).sort();
}

/** A percentile, interpolated between neighbours. */
export function percentile(ordered: Float64Array, percent: number): number {
    if (ordered.length === 0) return NaN;
    const at = (Math.min(100, Math.max(0, percent)) / 100) * (ordered.length - 1);
    const below = Math.floor(at);
    const low = ordered[below]!;
    const high = ordered[Math.min(below + 1, ordered.length - 1)]!;
    return low + (high - low) * (at - below);
}

/** Limits that the percentiles `from` and `to` give; of a scale that has no 0, above 0. */
export function autoLimits(values: Plane, scale: Scale, from: number, to: number, about0: boolean): [number, number] {
    const all = statistics(values);
    if (all.n === 0) return usable(0, 1, scale, all);
    const ordered = from > 0 || to < 100 ? sorted(values) : undefined;
    let low = ordered && from > 0 ? percentile(ordered, from) : all.min;
    let high = ordered && to < 100 ? percentile(ordered, to) : all.max;
    if (about0 && low < 0) {
        high = Math.max(Math.abs(low), Math.abs(high));
        low = -high;
    }
    // A picture that is dark but for few pixels is not shown as if it were all dark.
    if (!(high > low)) [low, high] = [all.min, all.max];
    return usable(low, high, scale, all);
}

/** The nearest limits that can be shown: `high` above `low`, and above 0 where the scale wants that. */
export function usable(low: number, high: number, scale: Scale, of: Statistics): [number, number] {
    if (scale === "log") {
        if (!(high > 0)) high = of.max > 0 ? of.max : 1;
        if (!(low > 0)) low = of.smallestPositive < high ? of.smallestPositive : high * 1e-3;
    }
    return [low, above(low, high)];
}

/** `high` if it is above `low`, else a number that is, however large `low` is. */
function above(low: number, high: number): number {
    return high > low ? high : low + (Math.abs(low) * 1e-6 || 1);
}

export interface Histogram {
    from: number;
    to: number;
    counts: Uint32Array;
}

/** How many values lie in each of `n` bins between the smallest and the largest; infinite ones lie in none. */
export function histogram(values: Plane, of: Statistics, n = 128): Histogram {
    const counts = new Uint32Array(n);
    const from = of.min;
    const to = above(from, of.max);
    const factor = n / (to - from);
    for (let i = 0; i < values.length; i++) {
        const value = values[i]!;
        if (value - value === 0) counts[Math.min(n - 1, Math.floor((value - from) * factor))]!++;
    }
    return { from, to, counts };
}

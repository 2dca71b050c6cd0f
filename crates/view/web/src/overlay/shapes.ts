// The shapes that users draw: where their handles are, what a handle does, and what they look like.

import type { Point, Shape, ShapeKind } from "../protocol.ts";
import type { View } from "../picture/view.ts";

export interface Handle {
    id: string;
    label: string;
    y: number;
    x: number;
    /** Arrow keys change a length (right and up: longer) and not a place. */
    radial?: boolean;
}

export interface Field {
    key: string;
    label: string;
    unit: "px" | "°" | "";
    value: number;
}

export const KIND_NAMES: Record<ShapeKind, string> = {
    point: "Point",
    disk: "Disk",
    ring: "Ring",
    wedge: "Wedge",
    rectangle: "Rectangle",
    polygon: "Polygon",
    lattice: "Lattice",
    array: "Array",
};

const tenth = (value: number) => Math.round(value * 10) / 10;
const turn = (angle: number) => ((angle % 360) + 360) % 360;
const towards = (cy: number, cx: number, r: number, degrees: number): Point => {
    const angle = (degrees * Math.PI) / 180;
    return [cy + r * Math.sin(angle), cx + r * Math.cos(angle)];
};
const degrees = (y: number, x: number) => turn((Math.atan2(y, x) * 180) / Math.PI);

/** As the viewer computes it, no lattice goes further. */
const MOST_ORDERS = 32;

/** How many degrees a wedge has, as the viewer computes it: none from an angle to the same one. */
function width(from: number, to: number): number {
    return to - from >= 360 ? 360 : turn(to - from);
}

/** The middle of a wedge's arc, where it is taken hold of. */
function middle(from: number, to: number): number {
    return from + width(from, to) / 2;
}

/** A shape of a kind about the middle of what is seen, `size` pixels wide. */
export function freshShape(kind: ShapeKind, cy: number, cx: number, size: number): Shape {
    const r = Math.max(0.5, tenth(size / 8));
    [cy, cx] = [tenth(cy), tenth(cx)];
    switch (kind) {
        case "point":
            return { kind, y: Math.round(cy), x: Math.round(cx) };
        case "disk":
            return { kind, cy, cx, r };
        case "ring":
            return { kind, cy, cx, ri: r, ro: 2 * r };
        case "wedge":
            return { kind, cy, cx, ri: r, ro: 2 * r, from: 315, to: 45 };
        case "rectangle": {
            const [y, x, half] = [Math.round(cy), Math.round(cx), Math.max(1, Math.round(r))];
            return { kind, y0: y - half, x0: x - half, y1: y + half, x1: x + half };
        }
        case "polygon":
            return { kind, points: [210, 330, 90].map((angle) => towards(cy, cx, 1.5 * r, angle).map(tenth) as Point) };
        case "lattice":
            return { kind, cy, cx, a: [0, tenth(2.5 * r)], b: [tenth(2.5 * r), 0], r: tenth(r / 2), order: 1 };
        case "array":
            return { kind, id: 0 };
    }
}

/** Another kind of shape at the same place. */
export function changedKind(shape: Shape, kind: ShapeKind, size: number): Shape {
    const [cy, cx] = centreOf(shape);
    const fresh = freshShape(kind, cy, cx, size);
    const r = radiusOf(shape);
    if (r !== undefined && fresh.kind === "disk") fresh.r = r;
    if ((shape.kind === "ring" || shape.kind === "wedge") && (fresh.kind === "ring" || fresh.kind === "wedge")) {
        fresh.ri = shape.ri;
        fresh.ro = shape.ro;
    }
    if (shape.kind === "disk" && (fresh.kind === "ring" || fresh.kind === "wedge")) {
        fresh.ri = shape.r;
        fresh.ro = tenth(2 * shape.r);
    }
    return fresh;
}

function radiusOf(shape: Shape): number | undefined {
    if (shape.kind === "disk" || shape.kind === "lattice") return shape.r;
    return shape.kind === "ring" || shape.kind === "wedge" ? shape.ri || shape.ro : undefined;
}

/** Where a shape is. */
export function centreOf(shape: Shape): Point {
    switch (shape.kind) {
        case "point":
            return [shape.y, shape.x];
        case "rectangle":
            return [(shape.y0 + shape.y1) / 2, (shape.x0 + shape.x1) / 2];
        case "polygon": {
            const n = Math.max(1, shape.points.length);
            const sum = shape.points.reduce(([a, b], [y, x]) => [a + y, b + x], [0, 0]);
            return [sum[0]! / n, sum[1]! / n];
        }
        case "array":
            return [0, 0];
        default:
            return [shape.cy, shape.cx];
    }
}

/** The shape moved by so many pixels. */
export function moved(shape: Shape, dy: number, dx: number): Shape {
    switch (shape.kind) {
        case "point":
            return { ...shape, y: Math.round(shape.y + dy), x: Math.round(shape.x + dx) };
        case "rectangle": {
            const [y, x] = [Math.round(dy), Math.round(dx)];
            return { ...shape, y0: shape.y0 + y, y1: shape.y1 + y, x0: shape.x0 + x, x1: shape.x1 + x };
        }
        case "polygon":
            return { ...shape, points: shape.points.map(([y, x]) => [tenth(y + dy), tenth(x + dx)]) };
        case "array":
            return shape;
        default:
            return { ...shape, cy: tenth(shape.cy + dy), cx: tenth(shape.cx + dx) };
    }
}

/** The handles of a shape; the first one moves all of it. */
export function handlesOf(shape: Shape): Handle[] {
    const [cy, cx] = centreOf(shape);
    const all: Handle[] = [{ id: "centre", label: "centre", y: cy, x: cx }];
    const add = (id: string, label: string, [y, x]: Point, radial = false) => all.push({ id, label, y, x, radial });
    switch (shape.kind) {
        case "point":
            return all;
        case "disk":
            add("r", "radius", [cy, cx + shape.r], true);
            return all;
        case "ring":
            add("ri", "inner radius", [cy, cx + shape.ri], true);
            add("ro", "outer radius", [cy, cx + shape.ro], true);
            return all;
        case "wedge": {
            const half = (shape.ri + shape.ro) / 2;
            const at = middle(shape.from, shape.to);
            add("ri", "inner radius", towards(cy, cx, shape.ri, at), true);
            add("ro", "outer radius", towards(cy, cx, shape.ro, at), true);
            add("from", "first edge", towards(cy, cx, half, shape.from), true);
            add("to", "last edge", towards(cy, cx, half, shape.to), true);
            return all;
        }
        case "rectangle":
            add("00", "upper left corner", [shape.y0, shape.x0]);
            add("01", "upper right corner", [shape.y0, shape.x1]);
            add("11", "lower right corner", [shape.y1, shape.x1]);
            add("10", "lower left corner", [shape.y1, shape.x0]);
            return all;
        case "polygon":
            shape.points.forEach((point, i) => add(`p${i}`, `corner ${i + 1}`, point));
            return all;
        case "lattice":
            add("a", "vector a", [cy + shape.a[0], cx + shape.a[1]]);
            add("b", "vector b", [cy + shape.b[0], cx + shape.b[1]]);
            add("r", "radius", [cy, cx + shape.r], true);
            return all;
        case "array":
            return [];
    }
}

/** The shape with a handle at (y, x). */
export function dragged(shape: Shape, id: string, y: number, x: number): Shape {
    const [cy, cx] = centreOf(shape);
    if (id === "centre") return moved(shape, y - cy, x - cx);
    const distance = tenth(Math.hypot(y - cy, x - cx));
    switch (shape.kind) {
        case "disk":
            return { ...shape, r: distance };
        case "ring":
        case "wedge":
            if (id === "ri") return { ...shape, ri: Math.min(distance, shape.ro) };
            if (id === "ro") return { ...shape, ro: Math.max(distance, shape.ri) };
            return { ...shape, [id]: tenth(degrees(y - cy, x - cx)) };
        case "rectangle": {
            const row = id[0] === "0" ? "y0" : "y1";
            const col = id[1] === "0" ? "x0" : "x1";
            return { ...shape, [row]: Math.round(y), [col]: Math.round(x) };
        }
        case "polygon": {
            const points = [...shape.points];
            points[Number(id.slice(1))] = [tenth(y), tenth(x)];
            return { ...shape, points };
        }
        case "lattice":
            if (id === "r") return { ...shape, r: distance };
            return { ...shape, [id]: [tenth(y - cy), tenth(x - cx)] };
        default:
            return shape;
    }
}

/** The shape after an arrow key on a handle: `dy` and `dx` are the steps. */
export function nudged(shape: Shape, handle: Handle, dy: number, dx: number): Shape {
    if (!handle.radial) return dragged(shape, handle.id, handle.y + dy, handle.x + dx);
    const by = dx - dy;
    const field = fieldsOf(shape).find(({ key }) => key === handle.id);
    return field ? withField(shape, field.key, field.value + by) : shape;
}

/** The shape larger by so many pixels; rings keep their width. */
export function resized(shape: Shape, by: number): Shape {
    switch (shape.kind) {
        case "disk":
        case "lattice":
            return { ...shape, r: Math.max(0, shape.r + by) };
        case "ring":
        case "wedge": {
            const ri = Math.max(0, shape.ri + by);
            return { ...shape, ri, ro: ri + shape.ro - shape.ri };
        }
        case "rectangle":
            return { ...shape, y0: shape.y0 - by, x0: shape.x0 - by, y1: shape.y1 + by, x1: shape.x1 + by };
        default:
            return shape;
    }
}

/** The numbers of a shape, for typing. */
export function fieldsOf(shape: Shape): Field[] {
    const px = (key: string, label: string, value: number): Field => ({ key, label, unit: "px", value });
    const angle = (key: string, label: string, value: number): Field => ({ key, label, unit: "°", value });
    switch (shape.kind) {
        case "point":
            return [px("y", "y", shape.y), px("x", "x", shape.x)];
        case "disk":
            return [px("cy", "y", shape.cy), px("cx", "x", shape.cx), px("r", "r", shape.r)];
        case "ring":
            return [px("cy", "y", shape.cy), px("cx", "x", shape.cx), px("ri", "r inner", shape.ri), px("ro", "r outer", shape.ro)];
        case "wedge":
            return [
                px("cy", "y", shape.cy),
                px("cx", "x", shape.cx),
                px("ri", "r inner", shape.ri),
                px("ro", "r outer", shape.ro),
                angle("from", "from", shape.from),
                angle("to", "to", shape.to),
            ];
        case "rectangle":
            return (["y0", "x0", "y1", "x1"] as const).map((key) => px(key, key, shape[key]));
        case "polygon":
            return shape.points.flatMap(([y, x], i) => [px(`${i}y`, `y${i + 1}`, y), px(`${i}x`, `x${i + 1}`, x)]);
        case "lattice":
            return [
                px("cy", "y", shape.cy),
                px("cx", "x", shape.cx),
                px("a0", "a y", shape.a[0]),
                px("a1", "a x", shape.a[1]),
                px("b0", "b y", shape.b[0]),
                px("b1", "b x", shape.b[1]),
                px("r", "r", shape.r),
                { key: "order", label: "order", unit: "", value: shape.order },
            ];
        case "array":
            return [];
    }
}

/** The shape with a number set; what makes no sense becomes the nearest that does. */
export function withField(shape: Shape, key: string, value: number): Shape {
    if (!Number.isFinite(value)) return shape;
    const length = Math.max(0, value);
    switch (shape.kind) {
        case "ring":
        case "wedge":
            if (key === "ri") return { ...shape, ri: length, ro: Math.max(shape.ro, length) };
            if (key === "ro") return { ...shape, ro: length, ri: Math.min(shape.ri, length) };
            // One turn stays one: from 0 to 360 is all around.
            if (key === "from" || key === "to") return { ...shape, [key]: Math.abs(value) <= 360 ? value : turn(value) };
            return { ...shape, [key]: value };
        case "polygon": {
            const points = shape.points.map(([y, x]): Point => [y, x]);
            const point = points[parseInt(key, 10)];
            if (point) point[key.endsWith("y") ? 0 : 1] = value;
            return { ...shape, points };
        }
        case "lattice": {
            if (key === "order") return { ...shape, order: Math.min(MOST_ORDERS, Math.round(length)) };
            if (key === "r") return { ...shape, r: length };
            const vector = key[0] as "a" | "b";
            if (key === "cy" || key === "cx") return { ...shape, [key]: value };
            const [y, x] = shape[vector];
            return { ...shape, [vector]: key[1] === "0" ? [value, x] : [y, value] };
        }
        case "point":
        case "rectangle":
            return { ...shape, [key]: Math.round(value) };
        default:
            return { ...shape, [key]: key === "r" ? length : value };
    }
}

/** A corner more between a corner of a polygon and the next one. */
export function withCorner(shape: Shape, after: number): Shape {
    if (shape.kind !== "polygon") return shape;
    const [y0, x0] = shape.points[after]!;
    const [y1, x1] = shape.points[(after + 1) % shape.points.length]!;
    const points = [...shape.points];
    points.splice(after + 1, 0, [tenth((y0 + y1) / 2), tenth((x0 + x1) / 2)]);
    return { ...shape, points };
}

/** A corner less; a polygon keeps three. */
export function withoutCorner(shape: Shape, at: number): Shape {
    if (shape.kind !== "polygon" || shape.points.length <= 3) return shape;
    return { ...shape, points: shape.points.filter((_, i) => i !== at) };
}

/** What a shape looks like, as the path of an SVG. */
export function outline(shape: Shape, view: View): string {
    const place = ([y, x]: Point) => `${fixed(view.sx(x))} ${fixed(view.sy(y))}`;
    switch (shape.kind) {
        case "point": {
            const [y, x] = [Math.round(shape.y), Math.round(shape.x)];
            return box(view, y - 0.5, x - 0.5, y + 0.5, x + 0.5);
        }
        case "disk":
            return circle(view, shape.cy, shape.cx, shape.r);
        case "ring":
            return circle(view, shape.cy, shape.cx, shape.ri) + circle(view, shape.cy, shape.cx, shape.ro);
        case "wedge": {
            const { cy, cx, ri, ro, from, to } = shape;
            const large = width(from, to) > 180 ? 1 : 0;
            const arc = (r: number, sweep: number, end: number) =>
                `A${fixed(r * view.k)} ${fixed(r * view.k)} 0 ${large} ${sweep} ${place(towards(cy, cx, r, end))}`;
            if (width(from, to) === 360) return circle(view, cy, cx, ri) + circle(view, cy, cx, ro);
            return `M${place(towards(cy, cx, ri, from))}L${place(towards(cy, cx, ro, from))}${arc(ro, 1, to)}L${place(towards(cy, cx, ri, to))}${arc(ri, 0, from)}Z`;
        }
        case "rectangle": {
            const [y0, x0, y1, x1] = [shape.y0, shape.x0, shape.y1, shape.x1].map(Math.trunc) as [number, number, number, number];
            return box(view, Math.min(y0, y1) - 0.5, Math.min(x0, x1) - 0.5, Math.max(y0, y1) + 0.5, Math.max(x0, x1) + 0.5);
        }
        case "polygon":
            return shape.points.length ? `M${shape.points.map(place).join("L")}Z` : "";
        case "lattice": {
            const { cy, cx, a, b, r } = shape;
            const order = Math.min(shape.order, MOST_ORDERS);
            let path = `M${place([cy, cx])}L${place([cy + a[0], cx + a[1]])}M${place([cy, cx])}L${place([cy + b[0], cx + b[1]])}`;
            for (let i = -order; i <= order; i++) {
                for (let j = -order; j <= order; j++) {
                    const y = cy + i * a[0] + j * b[0];
                    const x = cx + i * a[1] + j * b[1];
                    if (y > -r - 1 && x > -r - 1 && y < view.rows + r && x < view.cols + r) path += circle(view, y, x, r);
                }
            }
            return path;
        }
        case "array":
            return "";
    }
}

const fixed = (value: number) => value.toFixed(2);

function circle(view: View, cy: number, cx: number, r: number): string {
    const radius = r * view.k;
    const [x, y] = [view.sx(cx), view.sy(cy)];
    const arc = `a${fixed(radius)} ${fixed(radius)} 0 1 0 `;
    return `M${fixed(x - radius)} ${fixed(y)}${arc}${fixed(2 * radius)} 0${arc}${fixed(-2 * radius)} 0Z`;
}

function box(view: View, y0: number, x0: number, y1: number, x1: number): string {
    const [top, left, bottom, right] = [view.sy(y0), view.sx(x0), view.sy(y1), view.sx(x1)].map(fixed);
    return `M${left} ${top}H${right}V${bottom}H${left}Z`;
}

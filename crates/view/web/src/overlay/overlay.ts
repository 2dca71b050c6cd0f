// Shapes over a picture: drawn as SVG, moved by pointer and keyboard.

import { svg, update } from "../dom.ts";
import type { View } from "../picture/view.ts";
import type { Point, Signed } from "../protocol.ts";
import { KIND_NAMES, centreOf, dragged, handlesOf, moved, nudged, outline, withCorner, withoutCorner } from "./shapes.ts";
import type { Handle } from "./shapes.ts";

/** What an overlay draws, and what it calls. */
export interface OverlayHost {
    shapes(): Signed[];
    selected(): number;
    select(index: number): void;
    /** A shape is another now; `input` is when the user did it. */
    change(index: number, shape: Signed["shape"], input: number): void;
    remove(index: number): void;
    line(): [Point, Point] | null;
    changeLine(line: [Point, Point], input: number): void;
}

interface Drawn {
    group: SVGGElement;
    body: SVGPathElement;
    halo: SVGPathElement;
    handles: Map<string, SVGGElement>;
}

const STEPS: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
};

export class Overlay {
    readonly layer = svg("g", { class: "ffv-shapes" });
    private readonly lineLayer = svg("g", { class: "ffv-line" });
    private drawn: Drawn[] = [];
    private lineDrawn: { halo: SVGPathElement; body: SVGPathElement; ends: SVGGElement[] } | undefined;
    private view: View | undefined;
    /** What goes on between pointer down and up. */
    private drag: ((y: number, x: number, input: number) => void) | undefined;

    /** The handle that was taken hold of, if the pointer last went down on one. */
    private taken: { index: number; id: string } | undefined;

    constructor(
        private readonly root: SVGSVGElement,
        private readonly host: OverlayHost,
        private readonly noun: string,
    ) {
        root.append(this.layer, this.lineLayer);
        root.addEventListener("pointermove", (event) => {
            if (!this.drag || !this.view) return;
            const [y, x] = this.place(event);
            this.drag(y, x, event.timeStamp);
        });
        const end = () => {
            this.drag = undefined;
            root.classList.remove("ffv-dragging");
        };
        // Who holds the pointer hears of clicks: not the handle, but what it lies in.
        root.addEventListener("dblclick", (event) => {
            const { index, id } = this.taken ?? { index: -1, id: "" };
            const shape = this.host.shapes()[index]?.shape;
            const corner = /^p(\d+)$/.exec(id);
            if (shape && corner) this.host.change(index, withCorner(shape, Number(corner[1])), event.timeStamp);
        });
        // Before those of handles.
        root.addEventListener("pointerdown", () => (this.taken = undefined), { capture: true });
        root.addEventListener("pointerup", end);
        root.addEventListener("pointercancel", end);
    }

    /** Whether the pointer has hold of something. */
    get dragging(): boolean {
        return this.drag !== undefined;
    }

    /** Where an event is in the picture, in pixels. */
    place(event: MouseEvent): Point {
        const box = this.root.getBoundingClientRect();
        const view = this.view!;
        return [view.py(event.clientY - box.top), view.px(event.clientX - box.left)];
    }

    /** Takes hold of the selected shape, so that its centre is where the pointer is. */
    take(event: PointerEvent, offset: Point = [0, 0]): void {
        const index = this.host.selected();
        this.hold(event, (y, x, input) => {
            const shape = this.host.shapes()[index]?.shape;
            if (shape) this.host.change(index, dragged(shape, "centre", y + offset[0], x + offset[1]), input);
        });
    }

    /** Moves the selected shape, as the keys for all of a pane do. */
    nudge(dy: number, dx: number, input: number): void {
        const index = this.host.selected();
        const signed = this.host.shapes()[index];
        if (signed) this.host.change(index, moved(signed.shape, dy, dx), input);
    }

    /** Where a shape is. */
    centre(shape: Signed["shape"]): Point {
        return centreOf(shape);
    }

    draw(view: View): void {
        this.view = view;
        const shapes = this.host.shapes();
        while (this.drawn.length > shapes.length) this.drawn.pop()!.group.remove();
        shapes.forEach((signed, index) => this.drawShape(signed, index, view));
        this.drawLine(view);
    }

    private hold(event: PointerEvent, drag: (y: number, x: number, input: number) => void): void {
        this.drag = drag;
        this.root.setPointerCapture(event.pointerId);
        this.root.classList.add("ffv-dragging");
        event.stopPropagation();
    }

    private drawShape({ shape, sign }: Signed, index: number, view: View): void {
        let drawn = this.drawn[index];
        if (!drawn) {
            drawn = this.fresh(index);
            this.drawn.push(drawn);
            this.layer.append(drawn.group);
        }
        const chosen = index === this.host.selected();
        const classes = `ffv-shape ffv-${sign}${chosen ? " ffv-selected" : ""}`;
        if (drawn.group.getAttribute("class") !== classes) drawn.group.setAttribute("class", classes);
        const d = outline(shape, view);
        update(drawn.halo, { d });
        update(drawn.body, { d });
        // On a line, the corners of a span lie on each other.
        const handles = handlesOf(shape).filter(({ id }) => !view.line || (id !== "01" && id !== "10"));
        const ids = new Set(handles.map(({ id }) => id));
        for (const [id, node] of drawn.handles) {
            if (!ids.has(id)) {
                node.remove();
                drawn.handles.delete(id);
            }
        }
        for (const handle of handles) {
            let node = drawn.handles.get(handle.id);
            if (!node) {
                node = this.freshHandle(index, handle.id);
                drawn.handles.set(handle.id, node);
                drawn.group.append(node);
            }
            const words = `${this.noun} ${index + 1}, ${KIND_NAMES[shape.kind].toLowerCase()} (${sign}): ${handle.label}, y ${handle.y.toFixed(1)}, x ${handle.x.toFixed(1)} pixels`;
            update(node, {
                transform: `translate(${view.sx(handle.x).toFixed(2)} ${view.sy(handle.y).toFixed(2)})`,
                "aria-label": words,
            });
        }
    }

    private fresh(index: number): Drawn {
        const halo = svg("path", { class: "ffv-halo" });
        const body = svg("path", { class: "ffv-body" });
        body.addEventListener("pointerdown", (event) => {
            if (event.button !== 0) return;
            this.host.select(index);
            const [y, x] = this.place(event);
            const centre = handlesOf(this.host.shapes()[index]!.shape)[0];
            if (centre) this.take(event, [centre.y - y, centre.x - x]);
            this.drawn[index]?.handles.get("centre")?.focus({ preventScroll: true });
            event.preventDefault();
        });
        return { group: svg("g", {}, halo, body), body, halo, handles: new Map() };
    }

    private freshHandle(index: number, id: string): SVGGElement {
        const node = handleNode(id === "centre");
        node.dataset.handle = id;
        const current = (): Handle | undefined => {
            const signed = this.host.shapes()[index];
            return signed && handlesOf(signed.shape).find((handle) => handle.id === id);
        };
        node.addEventListener("focus", () => this.host.select(index));
        node.addEventListener("pointerdown", (event) => {
            if (event.button !== 0) return;
            const handle = current();
            if (!handle) return;
            this.host.select(index);
            this.taken = { index, id };
            node.focus({ preventScroll: true });
            const [y, x] = this.place(event);
            const [oy, ox] = [handle.y - y, handle.x - x];
            this.hold(event, (toY, toX, input) => {
                const shape = this.host.shapes()[index]?.shape;
                if (shape) this.host.change(index, dragged(shape, id, toY + oy, toX + ox), input);
            });
            event.preventDefault();
        });
        node.addEventListener("keydown", (event) => {
            const handle = current();
            const shape = this.host.shapes()[index]?.shape;
            if (!handle || !shape || event.ctrlKey || event.metaKey || event.altKey) return;
            const step = STEPS[event.key];
            const corner = /^p(\d+)$/.exec(id);
            if (step) {
                const by = event.shiftKey ? 10 : 1;
                this.host.change(index, nudged(shape, handle, step[0] * by, step[1] * by), event.timeStamp);
            } else if (event.key === "Insert" && corner) {
                this.host.change(index, withCorner(shape, Number(corner[1])), event.timeStamp);
            } else if ((event.key === "Delete" || event.key === "Backspace") && corner) {
                this.host.change(index, withoutCorner(shape, Number(corner[1])), event.timeStamp);
            } else if (event.key === "Delete" || event.key === "Backspace") {
                this.host.remove(index);
            } else {
                return;
            }
            event.preventDefault();
            event.stopPropagation();
        });
        return node;
    }

    private drawLine(view: View): void {
        const line = this.host.line();
        if (!line) {
            this.lineLayer.replaceChildren();
            this.lineDrawn = undefined;
            return;
        }
        if (!this.lineDrawn) {
            const ends = [0, 1].map((end) => this.freshEnd(end as 0 | 1));
            this.lineDrawn = { halo: svg("path", { class: "ffv-halo" }), body: svg("path", { class: "ffv-body" }), ends };
            this.lineLayer.append(this.lineDrawn.halo, this.lineDrawn.body, ...ends);
        }
        const places = line.map(([y, x]) => `${view.sx(x).toFixed(2)} ${view.sy(y).toFixed(2)}`);
        const d = `M${places[0]}L${places[1]}`;
        update(this.lineDrawn.halo, { d });
        update(this.lineDrawn.body, { d });
        this.lineDrawn.ends.forEach((node, end) => {
            const [y, x] = line[end]!;
            update(node, {
                transform: `translate(${places[end]})`,
                "aria-label": `line profile: ${end ? "end" : "start"}, y ${y.toFixed(1)}, x ${x.toFixed(1)} pixels`,
            });
        });
    }

    private freshEnd(end: 0 | 1): SVGGElement {
        const node = handleNode(false);
        node.dataset.handle = `line${end}`;
        const to = (y: number, x: number, input: number) => {
            const line = this.host.line();
            if (!line) return;
            const next: [Point, Point] = [line[0], line[1]];
            next[end] = [Math.round(y * 10) / 10, Math.round(x * 10) / 10];
            this.host.changeLine(next, input);
        };
        node.addEventListener("pointerdown", (event) => {
            if (event.button !== 0) return;
            node.focus({ preventScroll: true });
            this.hold(event, to);
            event.preventDefault();
        });
        node.addEventListener("keydown", (event) => {
            const step = STEPS[event.key];
            const line = this.host.line();
            if (!step || !line) return;
            const by = event.shiftKey ? 10 : 1;
            to(line[end][0] + step[0] * by, line[end][1] + step[1] * by, event.timeStamp);
            event.preventDefault();
            event.stopPropagation();
        });
        return node;
    }
}

/** A handle is a small mark with a larger, unseen one to take hold of. */
function handleNode(centre: boolean): SVGGElement {
    const mark = centre
        ? svg("path", { class: "ffv-mark", d: "M-5 0H5M0 -5V5" })
        : svg("rect", { class: "ffv-mark", x: -4, y: -4, width: 8, height: 8 });
    const halo = centre ? svg("path", { class: "ffv-mark-halo", d: "M-5 0H5M0 -5V5" }) : undefined;
    return svg(
        "g",
        { class: centre ? "ffv-handle ffv-centre" : "ffv-handle", tabindex: 0, role: "button", "aria-roledescription": "handle" },
        svg("circle", { class: "ffv-grip", r: 11 }),
        halo,
        mark,
        svg("circle", { class: "ffv-focus", r: 9 }),
    );
}

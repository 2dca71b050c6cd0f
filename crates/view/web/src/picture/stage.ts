// One picture on the screen, with what lies over it: where pointer and keys meet it.

import { el, svg, update } from "../dom.ts";
import { Overlay } from "../overlay/overlay.ts";
import type { OverlayHost } from "../overlay/overlay.ts";
import { Scales } from "../overlay/scales.ts";
import { Curve } from "../plots/curve.ts";
import type { Axis, Point } from "../protocol.ts";
import type { Lut, Norm } from "./colour.ts";
import { isVector } from "./decode.ts";
import type { Picture } from "./decode.ts";
import { painterFor } from "./painter.ts";
import type { Painter, PainterChoice } from "./painter.ts";
import { View, panned, zoomed } from "./view.ts";
import type { Zoom } from "./view.ts";
import { disk } from "./wheel.ts";

export interface StageHost extends OverlayHost {
    zoom(): Zoom | null;
    setZoom(zoom: Zoom | null): void;
    /** The pixel under the pointer or the cursor, or none. */
    cursor(place: Point | null): void;
    /** Something has to be drawn anew. */
    dirty(): void;
    /** Whether the wheel zooms here: in a notebook, only after a click. */
    wheelZooms(): boolean;
}

export interface Look {
    lut: Lut;
    norm: Norm;
    axes: Axis[];
    scalebar: boolean;
    ticks: boolean;
    /** Flat indices of pixels that are marked. */
    marks: number[];
}

/** How wide the disk of directions is. */
const LEGEND = 72;
/** Of marks that lie in a square of so many points of the screen, one is drawn. */
const MARKS_APART = 3;

export class Stage {
    readonly root: HTMLDivElement;
    readonly overlay: Overlay;
    picture: Picture | undefined;
    private canvas = el("canvas", { class: "ffv-canvas", "aria-hidden": "true" });
    /** Lies under the picture, and is seen where there is no data. */
    private readonly ground = el("div", { class: "ffv-ground" });
    private readonly svg = svg("svg", { class: "ffv-overlay" });
    private readonly marks = svg("path", { class: "ffv-marks" });
    private readonly cross = svg("path", { class: "ffv-cross" });
    private readonly scales: Scales;
    private readonly curve: Curve;
    private painter: Painter;
    private size: [number, number] = [0, 0];
    private whole: [number, number] = [1, 1];
    private line = false;
    private readonly legend = el("canvas", { class: "ffv-legend", width: LEGEND, height: LEGEND, hidden: true, "aria-hidden": "true" });
    private legendKey: { lut: Lut; key: string } | undefined;
    private cursorAt: Point | null = null;
    private marked: { marks: number[]; key: string } | undefined;
    /** What the canvas shows. */
    private painted: { picture: Picture; lut: Lut; key: string } | undefined;
    private pan: { x: number; y: number } | undefined;
    private readonly observer: ResizeObserver;

    constructor(
        private readonly host: StageHost,
        noun: string,
        label: string,
        choice: PainterChoice,
    ) {
        this.curve = new Curve(this.svg);
        this.svg.append(this.marks);
        this.scales = new Scales(this.svg);
        this.overlay = new Overlay(this.svg, host, noun);
        this.svg.append(this.cross);
        this.root = el(
            "div",
            { class: "ffv-stage", tabindex: 0, role: "application", "aria-label": label, "aria-roledescription": "picture" },
            this.ground,
            this.canvas,
            this.svg,
            this.legend,
        );
        this.painter = this.freshPainter(choice);
        this.observer = new ResizeObserver(([entry]) => {
            const { width, height } = entry!.contentRect;
            this.size = [height, width];
            host.dirty();
        });
        this.observer.observe(this.root);
        this.listen();
    }

    get painterKind(): Painter["kind"] {
        return this.painter.kind;
    }

    /** How the picture lies now. */
    get view(): View {
        const [rows, cols] = this.whole;
        return new View(rows, cols, this.size[0], this.size[1], this.host.zoom(), this.line);
    }

    /** Shows a picture of `whole` rows and columns. */
    show(picture: Picture, whole: [number, number]): void {
        this.picture = picture;
        this.whole = whole;
        this.line = whole[0] === 1 && picture.rows === 1;
    }

    draw(look: Look): void {
        const [height, width] = this.size;
        if (width < 1 || height < 1) return;
        const density = Math.max(1, window.devicePixelRatio || 1);
        const [w, h] = [Math.round(width * density), Math.round(height * density)];
        if (this.canvas.width !== w || this.canvas.height !== h) {
            this.canvas.width = w;
            this.canvas.height = h;
        }
        const view = this.view;
        if (!this.picture) {
            this.clear();
        } else if (this.line) {
            this.clear();
            this.curve.draw(this.picture, view, look.norm);
        } else {
            this.curve.clear();
            this.paint(this.picture, look, view, density);
        }
        this.drawGround(view);
        update(this.svg, { viewBox: `0 0 ${width} ${height}` });
        this.drawMarks(view, look.marks);
        this.scales.draw(view, look.axes, look.scalebar, look.ticks || this.line);
        this.overlay.draw(view);
        this.drawCross(view);
        this.drawLegend(look);
    }

    /** The canvas as it is now, drawn again so that it can be read. */
    still(look: Look): HTMLCanvasElement {
        this.painted = undefined;
        this.draw(look);
        return this.canvas;
    }

    /** Paints the picture, unless the canvas shows it so already: where shapes move, pictures below them stay. */
    private paint(picture: Picture, { lut, norm }: Look, view: View, density: number): void {
        const { width, height } = this.canvas;
        const key = JSON.stringify([norm, view, density, width, height]);
        const old = this.painted;
        if (old?.picture === picture && old.lut === lut && old.key === key) return;
        this.painter.paint(picture, lut, norm, view, density);
        this.painted = { picture, lut, key };
    }

    private clear(): void {
        this.painter.clear();
        this.painted = undefined;
    }

    zoomBy(factor: number, at?: Point): void {
        const view = this.view;
        const [y, x] = at ?? [view.py(view.height / 2), view.px(view.width / 2)];
        this.host.setZoom(zoomed(this.host.zoom(), view, factor, y, x));
    }

    destroy(): void {
        this.observer.disconnect();
        this.painter.destroy();
    }

    private freshPainter(choice: PainterChoice): Painter {
        const painter = painterFor(this.canvas, choice);
        // A browser takes WebGL away when there are too many of it on a page: then it goes on without.
        this.canvas.addEventListener("webglcontextlost", () => {
            if (!this.root.isConnected) return;
            const fresh = el("canvas", { class: "ffv-canvas", "aria-hidden": "true" });
            this.canvas.replaceWith(fresh);
            this.canvas = fresh;
            this.painter = painterFor(fresh, "canvas2d");
            this.painted = undefined;
            this.host.dirty();
        });
        return painter;
    }

    private drawGround(view: View): void {
        const { style } = this.ground;
        update(this.ground, { hidden: this.line || !this.picture });
        style.left = `${view.sx(-0.5)}px`;
        style.top = `${view.sy(-0.5)}px`;
        style.width = `${view.cols * view.k}px`;
        style.height = `${view.rows * view.k}px`;
    }

    private drawMarks(view: View, marks: number[]): void {
        const key = marks.length ? JSON.stringify(view) : "";
        if (this.marked?.key === key && this.marked.marks === marks) return;
        this.marked = { marks, key };
        const k = Math.max(view.k, 2);
        const across = Math.ceil(view.width / MARKS_APART) + 2;
        const there = new Set<number>();
        let d = "";
        for (const index of marks) {
            const y = Math.floor(index / view.cols);
            const [top, left] = [view.sy(y) - k / 2, view.sx(index - y * view.cols) - k / 2];
            if (top > view.height || left > view.width || top < -k || left < -k) continue;
            const square = Math.floor((top + k) / MARKS_APART) * across + Math.floor((left + k) / MARKS_APART);
            if (view.k < MARKS_APART && there.has(square)) continue;
            there.add(square);
            d += `M${left.toFixed(1)} ${top.toFixed(1)}l${k.toFixed(1)} ${k.toFixed(1)}m${(-k).toFixed(1)} 0l${k.toFixed(1)} ${(-k).toFixed(1)}`;
        }
        update(this.marks, { d });
    }

    /** Which colour a direction has. */
    private drawLegend({ lut, norm }: Look): void {
        const hidden = this.line || !this.picture || !isVector(this.picture);
        update(this.legend, { hidden });
        const key = JSON.stringify(norm);
        if (hidden || (this.legendKey?.lut === lut && this.legendKey.key === key)) return;
        this.legendKey = { lut, key };
        this.legend.getContext("2d")!.putImageData(new ImageData(disk(lut, norm, LEGEND), LEGEND, LEGEND), 0, 0);
    }

    private drawCross(view: View): void {
        const at = this.cursorAt;
        if (!at || document.activeElement !== this.root) {
            update(this.cross, { d: "" });
            return;
        }
        const [y, x] = [view.sy(at[0]), view.sx(at[1])];
        update(this.cross, { d: `M${x - 14} ${y}h10m8 0h10M${x} ${y - 14}v10m0 8v10` });
    }

    private setCursor(place: Point | null): void {
        this.cursorAt = place;
        this.host.cursor(place);
    }

    private listen(): void {
        const { root, host } = this;
        root.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
        root.addEventListener("pointerdown", (event) => this.onDown(event));
        root.addEventListener("pointermove", (event) => {
            if (this.pan) {
                const view = this.view;
                host.setZoom(panned(host.zoom(), view, (this.pan.y - event.clientY) / view.k, (this.pan.x - event.clientX) / view.k));
                this.pan = { x: event.clientX, y: event.clientY };
            }
            const [y, x] = this.view.line || this.picture ? this.placeOf(event) : [0, 0];
            this.setCursor([Math.round(y), Math.round(x)]);
        });
        const end = () => {
            this.pan = undefined;
            root.classList.remove("ffv-panning");
        };
        root.addEventListener("pointerup", end);
        root.addEventListener("pointercancel", end);
        root.addEventListener("pointerleave", () => this.setCursor(null));
        root.addEventListener("blur", () => host.dirty());
        root.addEventListener("keydown", (event) => this.onKey(event));
    }

    private placeOf(event: MouseEvent): Point {
        const box = this.root.getBoundingClientRect();
        const view = this.view;
        return [view.py(event.clientY - box.top), view.px(event.clientX - box.left)];
    }

    private onWheel(event: WheelEvent): void {
        if (!this.host.wheelZooms() && !this.root.contains(document.activeElement)) return;
        event.preventDefault();
        this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)), this.placeOf(event));
    }

    private onDown(event: PointerEvent): void {
        this.root.focus({ preventScroll: true });
        if (event.button > 1) return;
        const shape = this.host.shapes()[this.host.selected()]?.shape;
        if (event.button === 0 && shape?.kind === "point" && !event.altKey) {
            // A point goes where one clicks.
            const [y, x] = this.placeOf(event);
            this.overlay.take(event);
            this.host.change(this.host.selected(), { kind: "point", y: Math.round(y), x: Math.round(x) }, event.timeStamp);
            event.preventDefault();
            return;
        }
        this.pan = { x: event.clientX, y: event.clientY };
        this.root.setPointerCapture(event.pointerId);
        this.root.classList.add("ffv-panning");
        event.preventDefault();
    }

    private onKey(event: KeyboardEvent): void {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "+" || event.key === "=") this.zoomBy(1.25);
        else if (event.key === "-") this.zoomBy(0.8);
        else if (event.key === "0") this.host.setZoom(null);
        else if (event.target === this.root && event.key.startsWith("Arrow")) this.moveCursor(event);
        else if (event.target === this.root && event.key === "Enter") this.placeShape(event);
        else return;
        event.preventDefault();
        event.stopPropagation();
    }

    private moveCursor(event: KeyboardEvent): void {
        const [rows, cols] = this.whole;
        const by = event.shiftKey ? 10 : 1;
        const [y, x] = this.cursorAt ?? [Math.floor(rows / 2), Math.floor(cols / 2)];
        const dy = event.key === "ArrowUp" ? -by : event.key === "ArrowDown" ? by : 0;
        const dx = event.key === "ArrowLeft" ? -by : event.key === "ArrowRight" ? by : 0;
        const clamp = (value: number, n: number) => Math.min(n - 1, Math.max(0, value));
        this.setCursor([clamp(y + dy, rows), clamp(x + dx, cols)]);
        this.keepInView(clamp(y + dy, rows), clamp(x + dx, cols));
        this.host.dirty();
    }

    /** Moves what is seen such that a pixel is: the way for keys to see other parts of a zoomed picture. */
    private keepInView(y: number, x: number): void {
        const zoom = this.host.zoom();
        const view = this.view;
        const half = view.k / 2;
        const beyond = (at: number, end: number) => Math.min(0, at - half) + Math.max(0, at + half - end);
        const dy = this.line ? 0 : beyond(view.sy(y), view.height);
        const dx = beyond(view.sx(x), view.width);
        if (zoom && (dy !== 0 || dx !== 0)) this.host.setZoom(panned(zoom, view, dy / view.k, dx / view.k));
    }

    private placeShape(event: KeyboardEvent): void {
        const index = this.host.selected();
        const signed = this.host.shapes()[index];
        if (!signed || !this.cursorAt) return;
        const [cy, cx] = this.overlay.centre(signed.shape);
        this.overlay.nudge(this.cursorAt[0] - cy, this.cursorAt[1] - cx, event.timeStamp);
    }
}

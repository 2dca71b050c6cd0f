// A small plot: one curve, its axes, marks, and the value under the pointer or the cursor that keys move.

import { el, niceStep, reading, short, svg, update } from "../dom.ts";
import { Pen } from "./pen.ts";

export interface Series {
    x: ArrayLike<number>;
    y: ArrayLike<number>;
}
export interface PlotLook {
    xWords: string;
    log: boolean;
    /** Positions on x that are marked. */
    marks?: number[];
}

const HEIGHT = 120;
/** On the left at least; numbers may need more. */
const PAD = { left: 46, right: 8, top: 6, bottom: 20 };
const DIGIT_WIDTH = 7.2;

export class LinePlot {
    readonly root: HTMLElement;
    private readonly svg = svg("svg", { class: "ffv-plot", role: "img", tabindex: 0 });
    private readonly readout = el("output", { class: "ffv-plot-value" });
    private readonly cross = svg("path", { class: "ffv-plot-cross" });
    private series: Series | undefined;
    private look: PlotLook = { xWords: "", log: false };
    /** Which value is read. */
    private at = 0;
    private width = 300;
    /** What the values span. */
    private range = 1;
    private toX: (value: number) => number = () => 0;
    private fromX: (value: number) => number = () => 0;
    private readonly observer: ResizeObserver;

    constructor(private readonly label: string) {
        this.root = el("div", { class: "ffv-plot-box" }, this.svg, this.readout);
        this.observer = new ResizeObserver(([entry]) => {
            this.width = Math.max(120, entry!.contentRect.width);
            this.redraw();
        });
        this.observer.observe(this.root);
        this.svg.addEventListener("pointermove", (event) => this.point(event));
        this.svg.addEventListener("keydown", (event) => this.onKey(event));
        for (const name of ["pointerleave", "blur"]) {
            this.svg.addEventListener(name, () => {
                this.readout.textContent = "";
                this.cross.setAttribute("d", "");
            });
        }
    }

    show(series: Series, look: PlotLook): void {
        this.series = series;
        this.look = look;
        this.redraw();
    }

    destroy(): void {
        this.observer.disconnect();
    }

    private redraw(): void {
        const { series } = this;
        if (!series || series.x.length === 0) return;
        const { log, xWords, marks } = this.look;
        const n = series.x.length;
        let [low, high] = [Infinity, -Infinity];
        for (let i = 0; i < n; i++) {
            const value = series.y[i]!;
            if (value - value !== 0 || (log && !(value > 0))) continue;
            low = Math.min(low, value);
            high = Math.max(high, value);
        }
        if (!(high >= low)) [low, high] = log ? [1, 10] : [0, 1];
        if (!log && low > 0 && low < 0.5 * high) low = 0;
        if (high === low) high = low + (Math.abs(low) || 1);
        this.range = high - low;
        const height = (value: number) => (log ? Math.log(value) : value);
        const [bottom, top] = [height(low), height(high)];
        const inner = HEIGHT - PAD.top - PAD.bottom;
        const y = (value: number) => PAD.top + inner * (1 - (height(value) - bottom) / (top - bottom || 1));
        const [first, last] = [series.x[0]!, series.x[n - 1]!];
        const span = last - first || 1;
        const limits = [low, high].map((value) => short(value, 3, high - low));
        const left = Math.max(PAD.left, ...limits.map((text) => 8 + DIGIT_WIDTH * text.length));
        const across = this.width - left - PAD.right;
        this.toX = (value) => left + (across * (value - first)) / span;
        this.fromX = (at) => first + ((at - left) / across) * span;

        const pen = new Pen();
        for (let i = 0; i < n; i++) {
            const value = series.y[i]!;
            if (value - value !== 0 || (log && !(value > 0))) {
                pen.lift();
                continue;
            }
            pen.to(this.toX(series.x[i]!), y(value));
        }
        update(this.svg, { viewBox: `0 0 ${this.width} ${HEIGHT}`, width: this.width, height: HEIGHT, "aria-label": `${this.label}, from ${short(low, 4, high - low)} to ${short(high, 4, high - low)}${log ? ", logarithmic" : ""}` });
        const parts: SVGElement[] = [svg("path", { class: "ffv-plot-frame", d: `M${left} ${PAD.top}V${HEIGHT - PAD.bottom}H${this.width - PAD.right}` })];
        const stepX = niceStep(span / 4);
        for (let i = Math.ceil(Math.min(first, last) / stepX); i <= Math.max(first, last) / stepX; i++) {
            const at = this.toX(i * stepX);
            if (at < this.width - PAD.right - 7 * xWords.length - 8) parts.push(svg("text", { x: at, y: HEIGHT - 6, "text-anchor": "middle" }, short(i * stepX, 4, stepX)));
            parts.push(svg("path", { class: "ffv-plot-frame", d: `M${at} ${HEIGHT - PAD.bottom}v3` }));
        }
        [low, high].forEach((value, i) => {
            parts.push(svg("text", { x: left - 4, y: y(value) + (value === high ? 8 : 0), "text-anchor": "end" }, limits[i]!));
        });
        parts.push(svg("text", { x: this.width - PAD.right, y: HEIGHT - 6, "text-anchor": "end" }, xWords));
        if (log) parts.push(svg("text", { x: left - 4, y: PAD.top + inner / 2 + 4, "text-anchor": "end" }, "log"));
        for (const mark of marks ?? []) {
            const at = this.toX(mark);
            if (at >= left && at <= this.width) parts.push(svg("path", { class: "ffv-plot-mark", d: `M${at} ${PAD.top}V${HEIGHT - PAD.bottom}` }));
        }
        parts.push(svg("path", { class: "ffv-plot-line", d: pen.drawn() }), this.cross);
        this.svg.replaceChildren(...parts);
        // What is read is the new curve's.
        if (this.readout.textContent) this.read(this.at);
    }

    private point(event: PointerEvent): void {
        const { series } = this;
        if (!series) return;
        const box = this.svg.getBoundingClientRect();
        const x = this.fromX(event.clientX - box.left);
        const n = series.x.length;
        const span = series.x[n - 1]! - series.x[0]! || 1;
        this.read(Math.round(((x - series.x[0]!) / span) * (n - 1)));
    }

    private onKey(event: KeyboardEvent): void {
        const n = this.series?.x.length ?? 0;
        const by = event.shiftKey ? 10 : 1;
        const places: Record<string, number> = { ArrowLeft: this.at - by, ArrowRight: this.at + by, Home: 0, End: n - 1 };
        const to = places[event.key];
        if (to === undefined || n === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
        this.read(to);
        event.preventDefault();
    }

    /** Shows the value with this number, or the nearest that there is. */
    private read(i: number): void {
        const { x, y } = this.series!;
        this.at = Math.min(x.length - 1, Math.max(0, i));
        const at = this.toX(x[this.at]!);
        this.cross.setAttribute("d", `M${at} ${PAD.top}V${HEIGHT - PAD.bottom}`);
        this.readout.textContent = `${short(x[this.at]!, 4, Math.abs(x[x.length - 1]! - x[0]!) / (x.length - 1 || 1))}: ${reading(y[this.at]!, this.range)}`;
    }
}

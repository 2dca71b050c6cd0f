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
    /** Axes and their numbers, made anew where they differ: letters take longest. */
    private readonly frame = svg("g");
    private framed = "";
    private readonly marks = svg("path", { class: "ffv-plot-mark" });
    private readonly curve = svg("path", { class: "ffv-plot-line" });
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
        this.svg.append(this.frame, this.marks, this.curve, this.cross);
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
                update(this.readout, {}, "");
                update(this.cross, { d: "" });
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
        let lines = `M${left} ${PAD.top}V${HEIGHT - PAD.bottom}H${this.width - PAD.right}`;
        const texts: { x: number; y: number; anchor: "middle" | "end"; words: string }[] = [];
        const stepX = niceStep(span / 4);
        for (let i = Math.ceil(Math.min(first, last) / stepX); i <= Math.max(first, last) / stepX; i++) {
            const at = this.toX(i * stepX);
            if (at < this.width - PAD.right - 7 * xWords.length - 8) texts.push({ x: at, y: HEIGHT - 6, anchor: "middle", words: short(i * stepX, 4, stepX) });
            lines += `M${at} ${HEIGHT - PAD.bottom}v3`;
        }
        [low, high].forEach((value, i) => {
            texts.push({ x: left - 4, y: y(value) + (value === high ? 8 : 0), anchor: "end", words: limits[i]! });
        });
        texts.push({ x: this.width - PAD.right, y: HEIGHT - 6, anchor: "end", words: xWords });
        if (log) texts.push({ x: left - 4, y: PAD.top + inner / 2 + 4, anchor: "end", words: "log" });
        const framed = JSON.stringify([lines, texts]);
        if (framed !== this.framed) {
            this.framed = framed;
            const numbers = texts.map(({ x, y, anchor, words }) => svg("text", { x, y, "text-anchor": anchor }, words));
            this.frame.replaceChildren(svg("path", { class: "ffv-plot-frame", d: lines }), ...numbers);
        }
        const seen = (marks ?? []).map(this.toX).filter((at) => at >= left && at <= this.width);
        update(this.marks, { d: seen.map((at) => `M${at} ${PAD.top}V${HEIGHT - PAD.bottom}`).join("") });
        update(this.curve, { d: pen.drawn() });
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
        update(this.cross, { d: `M${at} ${PAD.top}V${HEIGHT - PAD.bottom}` });
        this.readout.textContent = `${short(x[this.at]!, 4, Math.abs(x[x.length - 1]! - x[0]!) / (x.length - 1 || 1))}: ${reading(y[this.at]!, this.range)}`;
    }
}

// Contrast of one picture: colour map, scale, limits, and the histogram that they are set on.

import { el, numberField, pick, select, short, svg, toggle, update } from "../dom.ts";
import type { Histogram } from "../picture/limits.ts";
import type { Scale } from "../picture/limits.ts";
import type { Pane } from "../protocol.ts";
import type { Viewer } from "../viewer.ts";

const HEIGHT = 56;
const SCALES: [Scale, string][] = [
    ["linear", "Linear"],
    ["log", "Log"],
    ["sqrt", "Square root"],
    ["power", "Power"],
];

export class ContrastPanel {
    readonly root: HTMLElement;
    private readonly colormap: HTMLSelectElement;
    private readonly scale: HTMLSelectElement;
    private readonly auto: HTMLButtonElement;
    private readonly note = el("span", { class: "ffv-note ffv-display-only" }, "display only: the data stay as they are");
    private readonly gamma;
    private readonly low;
    private readonly high;
    private readonly from;
    private readonly to;
    private readonly bars = svg("path", { class: "ffv-bars" });
    private readonly shade = svg("rect", { class: "ffv-range", y: 0, height: HEIGHT });
    private readonly grips: Record<"low" | "high", SVGGElement>;
    private readonly plot: SVGSVGElement;
    private readonly ramp = el("canvas", { class: "ffv-ramp", width: 256, height: 1, "aria-hidden": "true" });
    private shown: Histogram | undefined;
    private dragging: "low" | "high" | undefined;
    private rampKey: unknown;

    constructor(
        private readonly viewer: Viewer,
        private readonly pane: Pane,
    ) {
        const display = () => viewer.state[pane].display;
        const changed = () => viewer.displayChanged(pane);
        const names = [...viewer.luts.keys()];
        this.colormap = select("Colour map", names.map((name) => [name, name]), display().colormap, (value) => {
            display().colormap = value;
            changed();
        });
        this.scale = select("Scale", SCALES, display().scale, (value) => {
            display().scale = value as Scale;
            changed();
        });
        this.gamma = numberField("γ", "", 0.05, (value) => {
            display().gamma = Math.min(10, Math.max(0.05, value));
            changed();
        });
        const limit = (which: "low" | "high") =>
            numberField(which, "", 1, (value) => {
                display()[which] = value;
                display().auto = false;
                changed();
            });
        this.low = limit("low");
        this.high = limit("high");
        const percent = (which: "from" | "to", label: string) =>
            numberField(label, "%", 0.1, (value) => {
                display()[which] = Math.min(100, Math.max(0, value));
                display().auto = true;
                changed();
            });
        this.from = percent("from", "from");
        this.to = percent("to", "to");
        this.low.input.dataset.field = "low";
        this.high.input.dataset.field = "high";
        this.auto = toggle("Auto", "Limits follow the picture: percentiles of an image, all of a curve (X)", display().auto, (on) => {
            display().auto = on;
            changed();
        });
        this.grips = { low: this.grip("low"), high: this.grip("high") };
        this.plot = svg("svg", { class: "ffv-histogram", viewBox: `0 0 256 ${HEIGHT}`, preserveAspectRatio: "none", role: "group", "aria-label": "Histogram with limits" }, this.shade, this.bars, this.grips.low, this.grips.high);
        this.plot.addEventListener("pointermove", (event) => {
            if (this.dragging) this.setFromPointer(this.dragging, event);
        });
        for (const name of ["pointerup", "pointercancel"]) this.plot.addEventListener(name, () => (this.dragging = undefined));
        this.root = el(
            "div",
            { class: "ffv-contrast" },
            el("div", { class: "ffv-row" }, this.colormap, this.scale, this.gamma.root, this.note),
            this.plot,
            this.ramp,
            el("div", { class: "ffv-row" }, this.low.root, this.high.root, this.auto, this.from.root, this.to.root),
        );
    }

    sync(): void {
        const { display } = this.viewer.state[this.pane];
        const vector = this.viewer.isVector(this.pane);
        pick(this.colormap, display.colormap);
        const line = this.viewer.isLine(this.pane);
        update(this.colormap, { hidden: line, disabled: vector, title: vector ? "Vectors have the colours of their direction" : "Colour map" });
        update(this.ramp, { hidden: line });
        // Curves are shown with all of their values.
        for (const { root } of [this.from, this.to]) update(root, { hidden: this.viewer.panels[this.pane].stage.view.line });
        pick(this.scale, display.scale);
        update(this.gamma.root, { hidden: display.scale !== "power" });
        update(this.note, { hidden: display.scale === "linear" });
        this.gamma.show(display.gamma);
        const range = display.high - display.low;
        this.low.show(display.low, range);
        this.high.show(display.high, range);
        this.from.show(display.from);
        this.to.show(display.to);
        update(this.auto, { "aria-pressed": String(display.auto) });
        const lut = this.viewer.lutFor(this.pane);
        if (lut !== this.rampKey) {
            this.rampKey = lut;
            const image = new ImageData(256, 1);
            for (let i = 0; i < 256; i++) image.data.set([lut[3 * i]!, lut[3 * i + 1]!, lut[3 * i + 2]!, 255], 4 * i);
            this.ramp.getContext("2d")!.putImageData(image, 0, 0);
        }
        this.place();
    }

    /** Shows another histogram. */
    show(histogram: Histogram): void {
        this.shown = histogram;
        const { counts } = histogram;
        const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 1));
        const width = 256 / counts.length;
        let d = "";
        counts.forEach((count, i) => {
            const height = (Math.log1p(count) / most) * (HEIGHT - 4);
            if (count) d += `M${(i * width).toFixed(2)} ${HEIGHT}v${(-height).toFixed(2)}h${width.toFixed(2)}V${HEIGHT}Z`;
        });
        update(this.bars, { d });
        this.place();
    }

    private place(): void {
        const { display } = this.viewer.state[this.pane];
        const at = (value: number) => {
            if (!this.shown) return 0;
            const t = (value - this.shown.from) / (this.shown.to - this.shown.from);
            return 256 * Math.min(1, Math.max(0, t));
        };
        const [low, high] = [at(display.low), at(display.high)];
        update(this.shade, { x: low, width: Math.max(0, high - low) });
        for (const [which, x] of [["low", low], ["high", high]] as const) {
            update(this.grips[which], { transform: `translate(${x.toFixed(2)} 0)`, "aria-valuenow": display[which], "aria-valuetext": short(display[which], 6, display.high - display.low) });
        }
    }

    private grip(which: "low" | "high"): SVGGElement {
        const node = svg(
            "g",
            { class: "ffv-limit", tabindex: 0, role: "slider", "aria-label": which === "low" ? "Lower limit" : "Upper limit", "data-limit": which },
            svg("rect", { class: "ffv-grip", x: -7, y: 0, width: 14, height: HEIGHT }),
            svg("rect", { class: "ffv-limit-line", x: -1, y: 0, width: 2, height: HEIGHT }),
        );
        node.addEventListener("pointerdown", (event) => {
            this.dragging = which;
            this.plot.setPointerCapture(event.pointerId);
            node.focus({ preventScroll: true });
            event.preventDefault();
        });
        node.addEventListener("keydown", (event) => {
            const sign = event.key === "ArrowRight" || event.key === "ArrowUp" ? 1 : event.key === "ArrowLeft" || event.key === "ArrowDown" ? -1 : 0;
            if (sign === 0 || !this.shown) return;
            const step = ((this.shown.to - this.shown.from) / 200) * (event.shiftKey ? 10 : 1);
            this.set(which, this.viewer.state[this.pane].display[which] + sign * step);
            event.preventDefault();
            event.stopPropagation();
        });
        return node;
    }

    private setFromPointer(which: "low" | "high", event: PointerEvent): void {
        if (!this.shown) return;
        const box = this.plot.getBoundingClientRect();
        const t = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        this.set(which, this.shown.from + t * (this.shown.to - this.shown.from));
    }

    private set(which: "low" | "high", value: number): void {
        const { display } = this.viewer.state[this.pane];
        display.auto = false;
        display[which] = which === "low" ? Math.min(value, display.high) : Math.max(value, display.low);
        this.viewer.displayChanged(this.pane);
    }
}

// One half of the viewer: a picture, what is computed for it, and what is drawn on it.

import { el, reading, toggle, update } from "../dom.ts";
import { pixelSize, placeWords, radiusSize } from "../overlay/scales.ts";
import { centreOf } from "../overlay/shapes.ts";
import type { Norm } from "../picture/colour.ts";
import { isVector, scalars } from "../picture/decode.ts";
import type { Picture, Plane } from "../picture/decode.ts";
import { autoLimits, histogram, statistics, usable } from "../picture/limits.ts";
import { Stage } from "../picture/stage.ts";
import type { Look } from "../picture/stage.ts";
import { LinePlot } from "../plots/lineplot.ts";
import { along, radial } from "../plots/profiles.ts";
import type { Pane, Point } from "../protocol.ts";
import { extent, shapesOn } from "../state.ts";
import type { Viewer } from "../viewer.ts";
import { ChannelPanel } from "./channel.ts";
import { ContrastPanel } from "./contrast.ts";
import { ShapesPanel } from "./shapes.ts";

/** How long an answer may take before the picture is said to be of earlier settings. */
const LATE_MS = 250;
/** Histograms and profiles are drawn at most so often while pictures follow the pointer. */
const PLOTS_MS = 120;

export class PanePanel {
    readonly root: HTMLElement;
    readonly stage: Stage;
    readonly channel: ChannelPanel;
    private readonly contrast: ContrastPanel;
    private readonly shapes: ShapesPanel;
    private readonly badge = el("span", { class: "ffv-badge", role: "status" });
    private readonly bar = el("progress", { class: "ffv-progress", max: 1, value: 0, hidden: true, "aria-label": "progress" });
    private readonly stop: HTMLButtonElement;
    private readonly readout = el("output", { class: "ffv-readout", "aria-live": "polite" });
    private readonly trouble = el("div", { class: "ffv-trouble", role: "alert", hidden: true });
    private readonly radialPlot = new LinePlot("Radial profile");
    private readonly linePlot = new LinePlot("Line profile");
    private readonly lineButton: HTMLButtonElement;
    private readonly axesButton: HTMLButtonElement;
    private readonly radialBox: HTMLDetailsElement;
    private readonly lineBox: HTMLElement;
    private values: Plane | undefined;
    /** Scan positions without data. */
    private missing: number[] = [];
    private plotTimer: ReturnType<typeof setTimeout> | undefined;
    private lateTimer: ReturnType<typeof setTimeout> | undefined;
    /** Whether what is computed now may take long. */
    private stoppable = false;
    private cursorAt: Point | null = null;

    constructor(
        private readonly viewer: Viewer,
        readonly pane: Pane,
    ) {
        const { state } = viewer;
        const scan = pane === "scan";
        this.stage = new Stage(
            {
                // They lie on the data, not on their transform.
                shapes: () => (this.stage.picture?.axes ? [] : shapesOn(viewer.state, pane)),
                selected: () => viewer.selected[pane],
                select: (index) => viewer.selectShape(pane, index),
                change: (index, shape, input) => viewer.changeShape(pane, index, shape, input),
                remove: (index) => viewer.removeShape(pane, index),
                line: () => viewer.state[pane].line,
                changeLine: (line) => {
                    viewer.state[pane].line = line;
                    this.plotSoon();
                    viewer.noted(pane);
                },
                zoom: () => viewer.state[pane].display.zoom,
                setZoom: (zoom) => viewer.setZoom(pane, zoom),
                cursor: (place) => {
                    this.cursorAt = place;
                    this.showCursor();
                },
                dirty: () => viewer.dirty(pane),
                wheelZooms: () => viewer.page,
            },
            scan ? "region" : "detector",
            scan ? "scan image" : "pattern",
            viewer.painter,
        );
        this.channel = new ChannelPanel(viewer, pane);
        this.contrast = new ContrastPanel(viewer, pane);
        this.shapes = new ShapesPanel(viewer, pane);
        this.stop = el("button", { type: "button", class: "ffv-stop", title: "Stop computing", hidden: true, onclick: () => viewer.cancel(pane) }, "Stop");
        const zoomButtons = [
            el("button", { type: "button", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => this.stage.zoomBy(1.5) }, "+"),
            el("button", { type: "button", title: "Zoom out (-)", "aria-label": "Zoom out", onclick: () => this.stage.zoomBy(1 / 1.5) }, "−"),
            el("button", { type: "button", title: "Show all (0)", "aria-label": "Show all", onclick: () => viewer.setZoom(pane, null) }, "Fit"),
        ];
        this.axesButton = toggle("Axes", "Axes in calibrated units", state[pane].axes, (on) => {
            viewer.state[pane].axes = on;
            viewer.noted(pane);
        });
        this.lineButton = toggle("Line", "Values along a line", state[pane].line !== null, (on) => {
            const [rows, cols] = viewer.whole(pane);
            const [y, ...ends] = [rows / 2, cols / 4, (3 * cols) / 4].map(Math.floor) as [number, number, number];
            viewer.state[pane].line = on ? [[y, ends[0]], [y, ends[1]]] : null;
            this.plotSoon();
            viewer.noted(pane);
        });
        this.lineButton.hidden = viewer.isLine(pane);
        this.radialBox = el("details", { class: "ffv-section", open: !scan, ontoggle: () => this.plotSoon() }, el("summary", {}, "Radial profile"), this.radialPlot.root);
        this.radialBox.hidden = viewer.isLine(pane);
        this.lineBox = el("div", { class: "ffv-section", hidden: true }, el("h3", {}, "Line profile"), this.linePlot.root);
        const title = scan ? "Scan image" : "Pattern";
        this.root = el(
            "section",
            { class: `ffv-pane ffv-pane-${pane}`, "aria-label": title },
            el("header", { class: "ffv-pane-head" }, el("h2", {}, title), this.channel.root, el("span", { class: "ffv-state" }, this.badge, this.bar, this.stop)),
            this.trouble,
            this.stage.root,
            el("div", { class: "ffv-under" }, this.readout, el("div", { class: "ffv-tools" }, ...zoomButtons, this.axesButton, this.lineButton)),
            this.channel.vectors,
            el("div", { class: "ffv-section" }, el("h3", {}, scan ? "Region whose frames make the pattern" : "Detector"), this.shapes.root),
            el("div", { class: "ffv-section" }, el("h3", {}, "Contrast"), this.contrast.root),
            this.lineBox,
            this.radialBox,
        );
    }

    /** Shows what the state says. */
    sync(): void {
        this.channel.sync();
        this.contrast.sync();
        this.shapes.sync();
        update(this.axesButton, { "aria-pressed": String(this.viewer.state[this.pane].axes) });
        update(this.lineButton, { "aria-pressed": String(this.viewer.state[this.pane].line !== null) });
    }

    /** A picture has come. */
    show(picture: Picture): void {
        update(this.trouble, { hidden: true });
        this.stage.show(picture, this.wholeOf(picture));
        this.values = scalars(picture);
        this.missing = this.pane === "scan" && picture.state === "exact" && this.viewer.description.n_missing > 0 ? withoutData(this.values) : [];
        this.limits();
        this.showBadge();
        this.showCursor();
        this.plotSoon();
    }

    /** Limits that are automatic follow the picture. */
    limits(): void {
        const { display, query } = this.viewer.state[this.pane];
        const picture = this.stage.picture;
        if (!picture || !this.values) return;
        const { channel } = query;
        const vector = isVector(picture);
        const about0 = !vector && display.scale === "linear" && channel.kind === "com" && channel.part !== "magnitude";
        const { line } = this.stage.view;
        // A peak may be all that there is to see of a curve, and few of its values.
        const [from, to] = line ? [0, 100] : [display.from, display.to];
        if (display.auto && vector && display.scale !== "log") {
            // Of lengths, but on a line: there, components are drawn, which lie on both sides of 0.
            const longest = autoLimits(this.values, "linear", 0, to, false)[1];
            [display.low, display.high] = [line ? -longest : 0, longest];
        } else if (display.auto) [display.low, display.high] = autoLimits(this.values, display.scale, from, to, about0);
        else [display.low, display.high] = usable(display.low, display.high, display.scale, statistics(this.values));
    }

    paint(): void {
        this.stage.draw(this.look());
    }

    look(): Look {
        const { viewer, pane } = this;
        const { scalebar, axes: ticks } = viewer.state[pane];
        const marks = !viewer.state.marks || this.stage.picture?.axes ? [] : pane === "pattern" ? viewer.description.excluded : this.missing;
        return { lut: viewer.lutFor(pane), norm: this.norm(), axes: this.axes(), scalebar, ticks, marks };
    }

    norm(): Norm {
        const { low, high, scale, gamma } = this.viewer.state[this.pane].display;
        return { low, high, scale, gamma };
    }

    axes() {
        return this.stage.picture?.axes ?? this.viewer.axesOf(this.pane);
    }

    /** A question was asked; `stoppable` if it is one that may take long. */
    asked(stoppable: boolean): void {
        this.stoppable = stoppable;
        if (!stoppable) for (const node of [this.stop, this.bar]) update(node, { hidden: true });
        this.lateTimer ??= setTimeout(() => this.showBadge(), LATE_MS);
    }

    /** Nothing is computed any more: the answer is complete, or none comes. */
    ended(): void {
        this.stoppable = false;
        for (const node of [this.stop, this.bar]) update(node, { hidden: true });
        // A picture that has come is about to be painted; without one, the badge says so when the answer is late.
        if (this.viewer.isCurrent(this.pane)) this.showBadge();
    }

    /** Words over the picture; none takes them away. */
    complain(message: string, hint: string): void {
        this.trouble.hidden = message === "";
        this.trouble.replaceChildren(el("strong", {}, message), hint ? el("span", {}, hint) : "");
        if (!message) return;
        this.ended();
        this.showBadge();
    }

    destroy(): void {
        clearTimeout(this.plotTimer);
        clearTimeout(this.lateTimer);
        this.stage.destroy();
        this.radialPlot.destroy();
        this.linePlot.destroy();
    }

    plotSoon(): void {
        this.plotTimer ??= setTimeout(() => {
            this.plotTimer = undefined;
            this.plot();
        }, PLOTS_MS);
    }

    private wholeOf({ axes, rows, cols, stride, line }: Picture): [number, number] {
        if (axes?.length) return [axes.length > 1 ? axes[axes.length - 2]!.size : 1, axes[axes.length - 1]!.size];
        const [ny, nx] = extent(this.viewer.description, this.pane);
        const fits = Math.ceil(ny / stride[0]) === rows && Math.ceil(nx / stride[1]) === cols;
        return fits ? [ny, nx] : [line ? 1 : rows * stride[0], cols * stride[1]];
    }

    /** Says what the picture is made of, or that it is not of what is set; what has taken a while can be stopped. */
    private showBadge(): void {
        clearTimeout(this.lateTimer);
        this.lateTimer = undefined;
        const { picture } = this.stage;
        const current = picture !== undefined && this.viewer.isCurrent(this.pane);
        const ready = current && picture.state === "exact";
        update(this.stop, { hidden: !this.stoppable || ready });
        if (!picture) return;
        update(this.badge, { "data-state": current ? picture.state : "earlier" }, current ? picture.label || picture.state : "of earlier settings");
        if (!current) return;
        update(this.bar, { value: picture.progress, hidden: !this.stoppable || ready || picture.progress >= 1 });
    }

    private plot(): void {
        const picture = this.stage.picture;
        if (!picture || !this.values) return;
        this.contrast.show(histogram(this.values, statistics(this.values)));
        const { values } = this;
        const { rows, cols, stride } = picture;
        const field = { values, rows, cols, stride };
        const { line, display } = this.viewer.state[this.pane];
        const log = display.scale === "log";
        const axes = this.axes();
        const size = pixelSize(axes);
        update(this.lineBox, { hidden: line === null });
        if (line) {
            const { x, y } = along(field, line);
            const [dy, dx] = [line[1][0] - line[0][0], line[1][1] - line[0][1]];
            const scale = Math.hypot(dy * size.y, dx * size.x) / (Math.hypot(dy, dx) || 1);
            this.linePlot.show({ x: x.map((value) => value * scale), y }, { xWords: size.unit, log });
        }
        if (!picture.line && this.radialBox.open) {
            const shape = shapesOn(this.viewer.state, this.pane)[this.viewer.selected[this.pane]]?.shape;
            const centre = axes === picture.axes || !shape || shape.kind === "array" ? this.viewer.middle(this.pane) : centreOf(shape);
            const { x, y } = radial(field, centre[0], centre[1]);
            const { size: scale, unit } = radiusSize(axes);
            const radii = shape?.kind === "disk" ? [shape.r] : shape?.kind === "ring" || shape?.kind === "wedge" ? [shape.ri, shape.ro] : [];
            this.radialPlot.show({ x: x.map((value) => value * scale), y }, { xWords: `radius, ${unit}`, log, marks: axes === picture.axes ? [] : radii.map((r) => r * scale) });
        }
    }

    private showCursor(): void {
        const picture = this.stage.picture;
        const at = this.cursorAt;
        const say = (words: string) => update(this.readout, {}, words);
        if (!picture || !at) return say("");
        const [y, x] = at;
        const [i, j] = [Math.floor(y / picture.stride[0]), Math.floor(x / picture.stride[1])];
        if (i < 0 || j < 0 || i >= picture.rows || j >= picture.cols) return say("");
        const axes = this.axes().slice(picture.line ? -1 : -2);
        const parts = [picture.line ? `x ${x}` : `y ${y}, x ${x}`];
        const place = placeWords(axes, [y, x].slice(-axes.length));
        if (place) parts.push(place);
        const numbers = picture.planes.map((plane) => plane[i * picture.cols + j]!);
        const { low, high } = this.norm();
        const words = numbers.map((value, k) => (numbers.length > 1 ? `${picture.names[k]} ` : "") + (Number.isNaN(value) ? "no data" : reading(value, high - low)));
        parts.push(words.join(", "));
        say(parts.join("  ·  "));
    }
}

/** The flat indices of values that are none. */
function withoutData(values: Plane): number[] {
    const found: number[] = [];
    values.forEach((value, i) => {
        if (Number.isNaN(value)) found.push(i);
    });
    return found;
}

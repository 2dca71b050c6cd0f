// The list of shapes drawn on a picture, with a field for each of their numbers.

import { el, numberField, select, toggle, update } from "../dom.ts";
import { KIND_NAMES, changedKind, fieldsOf, freshShape, withField } from "../overlay/shapes.ts";
import type { Field } from "../overlay/shapes.ts";
import { isCalibrated, radiusSize, unitOf } from "../overlay/scales.ts";
import type { Axis, Pane, ShapeKind, Signed } from "../protocol.ts";
import { shapesOn } from "../state.ts";
import { guessDisk, sendMask } from "../requests.ts";
import type { Viewer } from "../viewer.ts";

/** What a field's number is: a place on y or x, how far a vector goes along them, or a length in all directions. */
function direction(key: string): "y" | "x" | "along y" | "along x" | "length" {
    if (/^(cy|y\d?|\d+y)$/.test(key)) return "y";
    if (/^(cx|x\d?|\d+x)$/.test(key)) return "x";
    return /^[ab]0$/.test(key) ? "along y" : /^[ab]1$/.test(key) ? "along x" : "length";
}

/** On a line, a rectangle is a span. */
function nameOf(kind: ShapeKind, line: boolean): string {
    return line && kind === "rectangle" ? "Span" : KIND_NAMES[kind];
}

interface Conversion {
    unit: string;
    show(value: number): number;
    take(value: number): number;
    step: number;
}

function conversion(field: Field, axes: Axis[], calibrated: boolean): Conversion {
    const kind = direction(field.key);
    const plain = { unit: field.unit, show: (v: number) => v, take: (v: number) => v, step: 1 };
    if (field.unit !== "px" || !calibrated) return plain;
    // Rounded, as what is drawn by hand is: the pixel on an edge is in or out, not now this and then that.
    const scaled = (unit: string, scale: number, offset: number): Conversion => ({
        unit,
        show: (v) => offset + v * scale,
        take: (v) => Math.round(((v - offset) / scale) * 100) / 100,
        step: Math.abs(scale),
    });
    if (kind === "length") {
        const { size, unit } = radiusSize(axes);
        return unit === "px" ? plain : scaled(unit, size, 0);
    }
    const axis = axes[axes.length - (kind.endsWith("y") ? 2 : 1)];
    return isCalibrated(axis) ? scaled(unitOf(axis), axis.scale, kind.length > 1 ? 0 : axis.offset) : plain;
}

export class ShapesPanel {
    readonly root: HTMLElement;
    private readonly tools = new Map<ShapeKind, HTMLButtonElement>();
    private readonly list = el("ol", { class: "ffv-shape-list" });
    private readonly empty: HTMLElement;
    private readonly elsewhere: HTMLElement;
    private readonly fields: { index: number; key: string; show: (value: number) => void; convert: Conversion }[] = [];
    private readonly file = el("input", { type: "file", accept: ".npy", hidden: true, "aria-label": "mask file" });
    private calibrated = false;
    private built = "";

    constructor(
        private readonly viewer: Viewer,
        private readonly pane: Pane,
    ) {
        const line = viewer.isLine(pane);
        const kinds: ShapeKind[] = line
            ? ["point", "rectangle"]
            : pane === "pattern"
              ? ["point", "disk", "ring", "wedge", "rectangle", "polygon", "lattice", "array"]
              : ["point", "rectangle", "disk", "polygon"];
        const bar = el("div", { class: "ffv-tools", role: "toolbar", "aria-label": pane === "pattern" ? "Detector shape" : "Region shape" });
        for (const kind of kinds) {
            const words = nameOf(kind, line);
            const button = el("button", { type: "button", "aria-pressed": "false", title: `${words}: make the selected shape one, or add one`, "data-kind": kind }, words);
            button.addEventListener("click", () => this.use(kind));
            this.tools.set(kind, button);
            bar.append(button);
        }
        this.file.addEventListener("change", () => {
            const file = this.file.files?.[0];
            if (file) void sendMask(this.viewer, this.pane, file);
            this.file.value = "";
        });
        const signs = [
            el("button", { type: "button", title: "Add a shape that counts with weight 1", "data-add": "plus", onclick: () => this.add("plus") }, "Add +"),
            pane === "pattern"
                ? el("button", { type: "button", title: "Add a shape that counts with weight −1", "data-add": "minus", onclick: () => this.add("minus") }, "Add −")
                : undefined,
            el("button", { type: "button", title: "Remove the selected shape (Delete)", "data-remove": "", onclick: () => this.viewer.removeShape(this.pane, this.viewer.selected[this.pane]) }, "Remove"),
            pane === "pattern" && !line
                ? el("button", { type: "button", title: "Find the bright disk of the mean pattern", "data-guess": "disk", onclick: () => guessDisk(this.viewer) }, "Find disk")
                : undefined,
        ];
        const axes = viewer.axesOf(pane);
        const units = axes.some(isCalibrated)
            ? toggle(unitOf(axes[axes.length - 1]), "Numbers in calibrated units instead of pixels", false, (on) => {
                  this.calibrated = on;
                  this.built = "";
                  this.sync();
              })
            : undefined;
        this.empty = el("p", { class: "ffv-note" }, pane === "pattern" ? "No shape: the whole frame counts." : "No region: the whole scan counts.");
        this.elsewhere = el("p", { class: "ffv-note", hidden: true }, `${pane === "pattern" ? "Detectors lie on frames" : "Regions lie on the scan"}, not on the transform, and are not drawn there.`);
        this.root = el("div", { class: "ffv-shapes-panel" }, bar, el("div", { class: "ffv-tools" }, ...signs, units, this.file), this.empty, this.elsewhere, this.list);
    }

    /** Shows what the state says. */
    sync(): void {
        const shapes = shapesOn(this.viewer.state, this.pane);
        const chosen = this.viewer.selected[this.pane];
        for (const [kind, button] of this.tools) {
            update(button, { "aria-pressed": String(shapes[chosen]?.shape.kind === kind) });
        }
        update(this.empty, { hidden: shapes.length > 0 });
        update(this.elsewhere, { hidden: shapes.length === 0 || !this.viewer.panels[this.pane].stage.picture?.axes });
        const key = JSON.stringify([shapes.map(({ shape, sign }) => [shape.kind, sign, fieldsOf(shape).length]), chosen]);
        if (key !== this.built) {
            this.built = key;
            this.build(shapes, chosen);
        }
        for (const { index, key: name, show, convert } of this.fields) {
            const field = shapes[index] && fieldsOf(shapes[index]!.shape).find((one) => one.key === name);
            if (field) show(convert.show(field.value));
        }
    }

    private build(shapes: Signed[], chosen: number): void {
        this.fields.length = 0;
        const axes = this.viewer.axesOf(this.pane);
        const line = this.viewer.isLine(this.pane);
        this.list.replaceChildren(
            ...shapes.map(({ shape, sign }, index) => {
                const name = el("button", { type: "button", class: "ffv-shape-name", "aria-pressed": String(index === chosen) }, `${index + 1} ${nameOf(shape.kind, line)}`);
                name.addEventListener("click", () => this.viewer.selectShape(this.pane, index));
                const signBox = this.pane === "pattern"
                    ? select(`Sign of shape ${index + 1}`, [["plus", "+"], ["minus", "−"]], sign, (value) => this.viewer.setSign(this.pane, index, value as Signed["sign"]))
                    : undefined;
                // The numbers of the selected shape only: a polygon has many.
                const parts = index !== chosen ? [] : fieldsOf(shape).filter(({ key }) => !line || direction(key) !== "y").map((field) => {
                    const convert = conversion(field, axes, this.calibrated);
                    const made = numberField(field.label, convert.unit, convert.step, (value) => {
                        const now = shapesOn(this.viewer.state, this.pane)[index]?.shape;
                        if (now) this.viewer.changeShape(this.pane, index, withField(now, field.key, convert.take(value)), performance.now());
                    });
                    made.input.dataset.field = field.key;
                    this.fields.push({ index, key: field.key, show: made.show, convert });
                    return made.root;
                });
                return el("li", {}, el("div", { class: "ffv-row" }, signBox, name, ...parts));
            }),
        );
    }

    private use(kind: ShapeKind): void {
        if (kind === "array") {
            this.file.click();
            return;
        }
        const shapes = shapesOn(this.viewer.state, this.pane);
        const index = this.viewer.selected[this.pane];
        const signed = shapes[index];
        if (!signed) this.viewer.addShape(this.pane, { shape: this.fresh(kind), sign: "plus" });
        else if (signed.shape.kind !== kind) {
            const shape = signed.shape.kind === "array" ? this.fresh(kind) : changedKind(signed.shape, kind, this.size());
            this.viewer.changeShape(this.pane, index, this.flattened(shape), performance.now());
        }
    }

    private add(sign: Signed["sign"]): void {
        const chosen = shapesOn(this.viewer.state, this.pane)[this.viewer.selected[this.pane]]?.shape.kind;
        const line = this.viewer.isLine(this.pane);
        const kind = chosen && chosen !== "array" ? chosen : line ? "rectangle" : this.pane === "pattern" ? "disk" : "point";
        this.viewer.addShape(this.pane, { shape: this.fresh(kind), sign });
    }

    private size(): number {
        const view = this.viewer.panels[this.pane].stage.view;
        return view.line ? view.width / view.k : Math.min(view.height, view.width) / view.k;
    }

    private fresh(kind: ShapeKind): Signed["shape"] {
        const view = this.viewer.panels[this.pane].stage.view;
        return this.flattened(freshShape(kind, Math.round(view.py(view.height / 2)), Math.round(view.px(view.width / 2)), this.size()));
    }

    /** On a line, shapes have no height. */
    private flattened(shape: Signed["shape"]): Signed["shape"] {
        if (!this.viewer.isLine(this.pane)) return shape;
        if (shape.kind === "rectangle") return { ...shape, y0: 0, y1: 0 };
        return shape.kind === "point" ? { ...shape, y: 0 } : shape;
    }
}

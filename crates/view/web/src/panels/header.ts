// The line on top: what is shown, how it goes, and what can be done with it.

import { closable, el, toggle } from "../dom.ts";
import { ExportMenu } from "../export/menu.ts";
import { placeOn, unitOf } from "../overlay/scales.ts";
import { FilesMenu } from "./files.ts";
import type { Received } from "../protocol.ts";
import type { Viewer } from "../viewer.ts";

const SAID_MS = 8000;

export class Header {
    readonly root: HTMLElement;
    private readonly said = el("div", { class: "ffv-said", role: "status", hidden: true });
    private readonly background = el("span", { class: "ffv-background", role: "status" });
    private readonly sliders: { input: HTMLInputElement; words: HTMLElement; axis: number }[] = [];
    private readonly linked: HTMLButtonElement;
    private readonly marks: HTMLButtonElement;
    private timer: ReturnType<typeof setTimeout> | undefined;

    constructor(private readonly viewer: Viewer) {
        const { description } = viewer;
        const sizes = (axes: { size: number }[]) => axes.map(({ size }) => size).join(" × ") || "1";
        const facts = `${description.format} · ${description.dtype} · scan ${sizes(description.nav)} · frames ${sizes(description.sig)}`;
        const notes = [...description.warnings];
        if (description.n_missing > 0) notes.push(`${description.n_missing} scan positions have no data`);
        const warnings = notes.length
            ? closable(el("details", { class: "ffv-menu ffv-warnings" }, el("summary", {}, `${notes.length} ${notes.length > 1 ? "notes" : "note"}`), el("ul", {}, ...notes.map((note) => el("li", {}, note)))))
            : undefined;
        this.linked = toggle("Link zoom", "Both pictures are zoomed and moved together", viewer.state.linked, (on) => {
            viewer.state.linked = on;
            viewer.noted("scan");
        });
        this.marks = toggle("Marks", "Mark bad pixels, and scan positions without data", viewer.state.marks, (on) => {
            viewer.state.marks = on;
            viewer.noted("pattern");
            viewer.noted("scan");
        });
        this.marks.hidden = description.excluded.length === 0 && description.n_missing === 0;
        const files = viewer.features.includes("files") ? new FilesMenu(viewer).root : undefined;
        const menu = new ExportMenu(viewer);
        const slices = description.nav.slice(0, -2).map((axis, index) => {
            const input = el("input", { type: "range", min: 0, max: axis.size - 1, step: 1, "aria-label": `index on the axis ${axis.name || index}` });
            const words = el("output", {});
            input.addEventListener("input", (event) => {
                viewer.setSlice(index, Number(input.value), event.timeStamp);
                this.sync();
            });
            this.sliders.push({ input, words, axis: index });
            return el("label", { class: "ffv-slice" }, el("span", {}, axis.name || `axis ${index}`), input, words);
        });
        this.root = el(
            "header",
            { class: "ffv-head" },
            el("h1", {}, description.name),
            el("span", { class: "ffv-facts" }, facts),
            files,
            warnings,
            ...slices,
            el("span", { class: "ffv-fill" }),
            this.background,
            el("div", { class: "ffv-tools" },
                this.marks,
                this.linked,
                el("button", { type: "button", title: "Compute both pictures from all data (E)", "data-exact": "", onclick: () => viewer.exactly() }, "Run exactly"),
                menu.root,
                el("button", { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: () => viewer.toggleHelp() }, "?"),
            ),
            this.said,
        );
        this.sync();
    }

    sync(): void {
        const { state, description } = this.viewer;
        this.linked.setAttribute("aria-pressed", String(state.linked));
        this.marks.setAttribute("aria-pressed", String(state.marks));
        for (const { input, words, axis } of this.sliders) {
            const index = state.scan.query.slice[axis] ?? 0;
            input.value = String(index);
            const of = description.nav[axis]!;
            words.textContent = `${index}${of.unit ? ` · ${placeOn(of, index)} ${unitOf(of)}` : ""}`;
        }
    }

    /** Says something for a while; of what went wrong until it is taken away. */
    say(words: string, wrong = false): void {
        clearTimeout(this.timer);
        const close = el("button", { type: "button", "aria-label": "Dismiss", onclick: () => (this.said.hidden = true) }, "×");
        this.said.replaceChildren(el("span", {}, words), close);
        this.said.setAttribute("role", wrong ? "alert" : "status");
        this.said.classList.toggle("ffv-wrong", wrong);
        this.said.hidden = false;
        if (!wrong) this.timer = setTimeout(() => (this.said.hidden = true), SAID_MS);
    }

    /** How far what goes on in the background is. */
    progress({ state, done, label }: Extract<Received, { type: "progress" }>): void {
        this.background.textContent = state === "working" ? `${label} ${Math.floor(done * 100)} %` : label;
    }
}

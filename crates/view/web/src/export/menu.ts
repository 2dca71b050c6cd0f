// What can be taken along: pictures, arrays, scripts and what was set.

import { closable, el } from "../dom.ts";
import type { Pane } from "../protocol.ts";
import { toHash, toJson } from "../state.ts";
import type { Viewer } from "../viewer.ts";
import { figureOf } from "./figure.ts";
import { toPng } from "./png.ts";
import { toSvg } from "./svg.ts";

const ARRAYS: [string, string][] = [
    ["npy", "NumPy (.npy)"],
    ["tif", "TIFF (.tif)"],
    ["hspy", "HyperSpy (.hspy)"],
    ["zarr", "Zarr (.zarr.zip)"],
];

/** Hands bytes to the browser as a file. */
export function save(name: string, blob: Blob): void {
    const url = URL.createObjectURL(blob);
    const link = el("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export class ExportMenu {
    readonly root: HTMLDetailsElement;

    constructor(private readonly viewer: Viewer) {
        const file = el("input", { type: "file", accept: ".json,application/json", hidden: true, "aria-label": "saved state" });
        file.addEventListener("change", () => {
            const chosen = file.files?.[0];
            file.value = "";
            void chosen?.text().then((text) => this.attempt(() => viewer.load(text)));
        });
        const { features } = viewer;
        const arrays = features.includes("export");
        const scripts = features.includes("script");
        const item = (words: string, name: string, action: () => void) =>
            el("button", { type: "button", "data-export": name, onclick: () => this.attempt(action) }, words);
        const forPane = (pane: Pane, title: string) => [
            el("h3", {}, title),
            item("Picture (.png)", `${pane}-png`, () => this.png(pane)),
            item("Picture (.svg)", `${pane}-svg`, () => this.svg(pane)),
            ...(arrays ? ARRAYS : []).map(([format, words]) => item(words, `${pane}-${format}`, () => this.array(pane, format))),
        ];
        this.root = el(
            "details",
            { class: "ffv-menu ffv-export" },
            el("summary", {}, "Export"),
            el(
                "div",
                { class: "ffv-menu-body" },
                el("div", {}, ...forPane("pattern", "Pattern")),
                el("div", {}, ...forPane("scan", "Scan image")),
                el(
                    "div",
                    {},
                    el("h3", {}, "Both"),
                    ...(scripts ? [item("Script (.py)", "script", () => this.script("script")), item("Notebook (.ipynb)", "notebook", () => this.script("notebook"))] : []),
                    item("What is set (.json)", "state", () => save(`${this.stem()}-view.json`, new Blob([toJson(viewer.state)], { type: "application/json" }))),
                    item("Load what was set …", "load", () => file.click()),
                    viewer.page ? item("Copy link", "link", () => void this.copyLink()) : undefined,
                    file,
                ),
            ),
        );
        closable(this.root);
    }

    private attempt(action: () => void): void {
        try {
            action();
        } catch (error) {
            this.viewer.say(error instanceof Error ? error.message : String(error));
        }
    }

    private stem(): string {
        return this.viewer.description.name.replace(/\.\w{1,5}$/, "") || "view";
    }

    private png(pane: Pane): void {
        const failed = (error: unknown) => this.viewer.say(String(error));
        toPng(figureOf(this.viewer, pane)).then((blob) => save(`${this.stem()}-${pane}.png`, blob), failed);
    }

    private svg(pane: Pane): void {
        save(`${this.stem()}-${pane}.svg`, new Blob([toSvg(figureOf(this.viewer, pane))], { type: "image/svg+xml" }));
    }

    private array(pane: Pane, format: string): void {
        this.viewer.request({ type: "export", query: this.viewer.query(pane), format }, (answer, body) => this.received(answer, body));
    }

    private script(form: "script" | "notebook"): void {
        const queries = [this.viewer.query("pattern"), this.viewer.query("scan")];
        this.viewer.request({ type: "script", form, queries, state: this.viewer.exported() }, (answer, body) => this.received(answer, body));
    }

    private received(answer: { type: string; name?: unknown; media_type?: unknown }, body: Uint8Array): void {
        if (answer.type !== "file") return;
        save(String(answer.name), new Blob([new Uint8Array(body)], { type: String(answer.media_type) }));
    }

    private async copyLink(): Promise<void> {
        const link = new URL(toHash(this.viewer.state), location.href).href;
        try {
            await navigator.clipboard.writeText(link);
            this.viewer.say("the link is copied", false);
        } catch {
            this.viewer.say("the browser does not let the link be copied; it is in the address");
        }
    }
}

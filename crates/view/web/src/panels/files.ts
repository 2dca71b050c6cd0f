// Other files that may be opened: those that were named, and those in the folder that may be seen.

import { closable, el } from "../dom.ts";
import type { Listing } from "../protocol.ts";
import type { Viewer } from "../viewer.ts";

function size(bytes: number): string {
    const units = ["B", "kB", "MB", "GB", "TB"];
    const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(bytes || 1) / 3)));
    return `${Number((bytes / 1000 ** power).toPrecision(3))} ${units[power]}`;
}

export class FilesMenu {
    readonly root: HTMLDetailsElement;
    private readonly body = el("div", { class: "ffv-menu-body ffv-files" });

    constructor(private readonly viewer: Viewer) {
        this.root = closable(el("details", { class: "ffv-menu" }, el("summary", {}, "Open"), this.body));
        this.root.addEventListener("toggle", () => {
            if (this.root.open) this.list(undefined);
            // What was listed then is not there to be pressed before it is listed anew.
            else this.body.replaceChildren();
        });
    }

    private list(folder: string | undefined): void {
        const within = this.body.contains(document.activeElement);
        this.body.replaceChildren(el("p", { class: "ffv-note" }, "Looking …"));
        this.viewer.request({ type: "files", ...(folder === undefined ? {} : { folder }) }, (answer) => {
            if (answer.type !== "files" || !this.root.open) return;
            this.show(answer);
            // The entry that was pressed is gone: keys go on with the first one of the folder.
            if (within) this.body.querySelector("button")?.focus();
        });
    }

    private show({ name, parent, entries, more }: Listing): void {
        const up = parent == null ? undefined : el("button", { type: "button", onclick: () => this.list(parent) }, "↑ folder above");
        const items = entries.map((entry) => {
            const folder = entry.kind === "folder";
            const words = folder ? `${entry.name}/` : entry.name;
            const button = el("button", { type: "button" }, el("span", {}, words), folder ? undefined : el("span", { class: "ffv-unit" }, size(entry.bytes)));
            button.addEventListener("click", () => {
                if (folder) this.list(entry.id);
                else {
                    this.root.open = false;
                    this.viewer.openFile(entry.id, entry.name);
                }
            });
            return button;
        });
        this.body.replaceChildren(
            el("div", {}, name ? el("h3", {}, name) : undefined, up, ...items, items.length ? undefined : el("p", { class: "ffv-note" }, "There is nothing to open here.")),
            more ? el("p", { class: "ffv-note" }, "There is more than is shown.") : "",
        );
    }
}

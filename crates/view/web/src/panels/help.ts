// Keys: what they do, and the page that says so.

import { el } from "../dom.ts";
import type { Pane } from "../protocol.ts";
import type { Viewer } from "../viewer.ts";

const KEYS: [string, string][] = [
    ["Tab", "from control to control, and from handle to handle"],
    ["Arrows on a handle", "1 pixel; with Shift 10"],
    ["W A S D", "move the selected shape of the detector; with Shift by 10"],
    ["I J K L", "move the selected region of the scan; with Shift by 10"],
    ["[ ]", "smaller or larger disk or ring"],
    ["Delete on a handle", "remove the shape, or the corner of a polygon; Insert adds a corner"],
    ["Arrows on a picture", "move the cursor that reads values, and a zoomed picture with it; Enter puts the selected shape there"],
    ["Arrows on a profile", "the value before or after; with Shift by 10"],
    ["+ − 0", "zoom in, zoom out, show all; the wheel zooms, a drag moves the picture"],
    ["Click, with a point", "puts it there"],
    ["E", "run exactly"],
    ["X", "automatic contrast of both pictures"],
    ["?", "these keys; Escape closes them"],
];

export class Help {
    readonly root = el("dialog", { class: "ffv-help", "aria-label": "Keys" });

    constructor() {
        const rows = KEYS.map(([key, words]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, words)));
        const close = el("button", { type: "button", onclick: () => this.root.close() }, "Close");
        this.root.append(el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, ...rows)), close);
    }

    toggle(): void {
        if (this.root.open) this.root.close();
        else this.root.showModal();
    }
}

const MOVES: Record<string, [Pane, number, number]> = {
    w: ["pattern", -1, 0],
    a: ["pattern", 0, -1],
    s: ["pattern", 1, 0],
    d: ["pattern", 0, 1],
    i: ["scan", -1, 0],
    j: ["scan", 0, -1],
    k: ["scan", 1, 0],
    l: ["scan", 0, 1],
};

/** What keys do wherever the focus is, but in fields. */
export function globalKey(viewer: Viewer, event: KeyboardEvent): void {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || !viewer.panels) return;
    if (at instanceof HTMLInputElement || at instanceof HTMLSelectElement || at instanceof HTMLTextAreaElement) return;
    const key = event.key.toLowerCase();
    const move = MOVES[key];
    if (move) {
        const by = event.shiftKey ? 10 : 1;
        viewer.panels[move[0]].stage.overlay.nudge(move[1] * by, move[2] * by, event.timeStamp);
    } else if (key === "[" || key === "]") viewer.resize(key === "]" ? 1 : -1, event.timeStamp);
    else if (key === "?") viewer.toggleHelp();
    else if (key === "e") viewer.exactly();
    else if (key === "x") viewer.autoContrast();
    else return;
    event.preventDefault();
}

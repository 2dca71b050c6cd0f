// What is asked of the viewer besides pictures: guesses, and masks from files.

import { KIND_NAMES } from "./overlay/shapes.ts";
import type { Pane, Point, Shape } from "./protocol.ts";
import { shapesOn } from "./state.ts";
import type { Viewer } from "./viewer.ts";

const MIB = 1 << 20;
/** The largest file of a mask: with what stands before the weights. */
const MOST_BYTES = 64 * MIB + (1 << 16);

const hundredth = (value: number) => Math.round(value * 100) / 100;

/** Puts a shape in the place of the selected one, or adds it. */
function put(viewer: Viewer, pane: Pane, shape: Shape): void {
    const index = viewer.selected[pane];
    if (shapesOn(viewer.state, pane)[index]) viewer.changeShape(pane, index, shape, performance.now());
    else viewer.addShape(pane, { shape, sign: "plus" });
}

/** Sets the selected shape of the detector to the bright disk; a ring begins where that ends. */
export function guessDisk(viewer: Viewer): void {
    viewer.request({ type: "guess", what: "disk", query: viewer.query("scan") }, (answer) => {
        if (answer.type !== "guess") return;
        const found = { cy: hundredth(answer.cy ?? 0), cx: hundredth(answer.cx ?? 0) };
        const r = hundredth(answer.r ?? 1);
        const now = shapesOn(viewer.state, "pattern")[viewer.selected.pattern]?.shape;
        const around = now?.kind === "ring" || now?.kind === "wedge";
        put(viewer, "pattern", around ? { ...now, ...found, ri: r, ro: Math.max(now.ro, r) } : { kind: "disk", ...found, r });
    });
}

/** Finds rotation, flip and centre of the vectors. */
export function guessCom(viewer: Viewer): void {
    viewer.request({ type: "guess", what: "com", query: viewer.query("scan") }, (answer) => {
        if (answer.type !== "guess") return;
        const { rotation = 0, flip_y = false, cy, cx } = answer;
        const centre = cy === undefined || cx === undefined ? ("mean" as const) : { at: [hundredth(cy), hundredth(cx)] as Point };
        viewer.panels.scan.channel.setVectors({ rotation, flip_y, centre });
    });
}

/** Takes a mask from a file of NumPy. */
export async function sendMask(viewer: Viewer, pane: Pane, file: File): Promise<void> {
    if (file.size > MOST_BYTES) {
        viewer.say(`${file.name} has ${Math.ceil(file.size / MIB)} MiB, and a mask may have 64: save it with dtype float32, or uint8`);
        return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    viewer.request(
        { type: "mask", name: file.name, format: "npy" },
        (answer) => {
            if (answer.type !== "mask") return;
            put(viewer, pane, { kind: "array", id: answer.mask });
            viewer.say(`${file.name}: ${KIND_NAMES.array} ${answer.shape.join(" × ")}`, false);
        },
        bytes,
    );
}

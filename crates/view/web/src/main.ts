// The one module: `mount` for pages, and `render` for notebooks (anywidget).

import { SocketTransport, WidgetTransport, socketUrl } from "./transport.ts";
import type { Transport, WidgetModel } from "./transport.ts";
import { toJson } from "./state.ts";
import { Viewer } from "./viewer.ts";
import type { Counts, Options } from "./viewer.ts";
import type { Pane } from "./protocol.ts";

/** What those who mount a viewer can do with it. */
export interface Mounted {
    state(): string;
    load(state: string): void;
    counts(): Counts;
    /** Whether a picture is exact and nothing is on its way. */
    settled(pane: Pane): boolean;
    /** The picture as it is on the screen: width, height and RGBA, without what lies over it. */
    pixels(pane: Pane): { width: number; height: number; data: Uint8ClampedArray };
    /** Where a place of the picture is on the screen, and how many points a pixel has there. */
    place(pane: Pane, y: number, x: number): { x: number; y: number; k: number };
    destroy(): void;
}

/** Puts a viewer into an element. */
export function mount(element: HTMLElement, transport: Transport, options: Options = {}): Mounted {
    const viewer = new Viewer(element, transport, options);
    return {
        state: () => toJson(viewer.state),
        load: (state) => viewer.load(state),
        counts: () => viewer.counts,
        settled: (pane) => viewer.settled(pane),
        pixels: (pane) => {
            const panel = viewer.panels[pane];
            const canvas = panel.stage.still(panel.look());
            const copy = document.createElement("canvas");
            [copy.width, copy.height] = [canvas.width, canvas.height];
            const context = copy.getContext("2d")!;
            context.drawImage(canvas, 0, 0);
            const { width, height, data } = context.getImageData(0, 0, copy.width, copy.height);
            return { width, height, data };
        },
        place: (pane, y, x) => {
            const { stage } = viewer.panels[pane];
            const box = stage.root.getBoundingClientRect();
            const { view } = stage;
            return { x: box.left + stage.root.clientLeft + view.sx(x), y: box.top + stage.root.clientTop + view.sy(y), k: view.k };
        },
        destroy: () => viewer.destroy(),
    };
}

/** For notebooks. */
function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    const root = document.createElement("div");
    // Keys pressed here are no commands of the notebook's page, of which some add and remove cells.
    root.addEventListener("keydown", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
    el.append(root);
    const late = "The kernel has not answered yet. It is busy, or there is none, as of a notebook that was saved: run the cell again.";
    const mounted = mount(root, new WidgetTransport(model), { late });
    Object.assign(root, { framefold: mounted });
    return () => mounted.destroy();
}

export default { render };

const page = document.getElementById("framefold-viewer");
if (page && document.body.classList.contains("ffv-page")) {
    const options = new URLSearchParams(location.search);
    const painter = options.get("painter") === "canvas2d" ? "canvas2d" : "auto";
    const mounted = mount(page, new SocketTransport(socketUrl(new URL(location.href))), { page: true, painter });
    Object.assign(page, { framefold: mounted });
}

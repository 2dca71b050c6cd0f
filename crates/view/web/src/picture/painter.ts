// What draws pictures on a canvas: WebGL2 where it is there, Canvas2D elsewhere.

import type { Lut, Norm } from "./colour.ts";
import type { Picture } from "./decode.ts";
import type { View } from "./view.ts";
import { FlatPainter } from "./flat.ts";
import { GlPainter } from "./gl.ts";

export interface Painter {
    readonly kind: "webgl2" | "canvas2d";
    /** Draws it; `density` is how many pixels of the canvas a point of the screen has. */
    paint(picture: Picture, lut: Lut, norm: Norm, view: View, density: number): void;
    /** Nothing is drawn. */
    clear(): void;
    destroy(): void;
}

export type PainterChoice = "auto" | "canvas2d";

/** A painter for a canvas that nothing was drawn on. */
export function painterFor(canvas: HTMLCanvasElement, choice: PainterChoice): Painter {
    if (choice === "auto") {
        const gl = canvas.getContext("webgl2", { antialias: false, depth: false, powerPreference: "low-power" });
        if (gl) return new GlPainter(gl);
    }
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser draws neither with WebGL2 nor on a canvas");
    return new FlatPainter(context);
}

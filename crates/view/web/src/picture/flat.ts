// Pictures on a canvas without WebGL.

import type { Lut, Norm, Part } from "./colour.ts";
import { canvasOf, partsOf } from "./colour.ts";
import type { Picture } from "./decode.ts";
import type { Painter } from "./painter.ts";
import type { View } from "./view.ts";

export class FlatPainter implements Painter {
    readonly kind = "canvas2d";
    private parts: { part: Part; canvas: HTMLCanvasElement }[] = [];
    private drawn: { picture: Picture; lut: Lut; key: string } | undefined;

    constructor(private readonly context: CanvasRenderingContext2D) {}

    paint(picture: Picture, lut: Lut, norm: Norm, view: View, density: number): void {
        const key = JSON.stringify(norm);
        const old = this.drawn;
        if (old?.picture !== picture || old.lut !== lut || old.key !== key) {
            this.parts = partsOf(picture).map((part) => ({ part, canvas: canvasOf(picture, lut, norm, part) }));
            this.drawn = { picture, lut, key };
        }
        this.clear();
        const k = view.k * density;
        const [sy, sx] = picture.stride;
        this.context.imageSmoothingEnabled = k * Math.min(sy, sx) < 1;
        this.context.imageSmoothingQuality = "high";
        // Parts meet at a pixel of the screen: no line is seen between them.
        const place = (at: number, n: number, begin: number) => (at > 0 && at < n ? Math.round(begin) : begin);
        const x = (col: number) => place(col, picture.cols, (col * sx - view.ox) * k);
        const y = (row: number) => place(row, picture.rows, (row * sy - view.oy) * k);
        this.context.save();
        this.context.beginPath();
        this.context.rect(-view.ox * k, -view.oy * k, view.cols * k, view.rows * k);
        this.context.clip();
        for (const { part, canvas } of this.parts) {
            const [left, top] = [x(part.col), y(part.row)];
            const [width, height] = [x(part.col + part.cols) - left, y(part.row + part.rows) - top];
            if (width > 0 && height > 0) this.context.drawImage(canvas, left, top, width, height);
        }
        this.context.restore();
    }

    clear(): void {
        this.context.clearRect(0, 0, this.context.canvas.width, this.context.canvas.height);
    }

    destroy(): void {
        this.parts = [];
    }
}

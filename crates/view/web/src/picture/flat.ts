// Pictures on a canvas without WebGL.

import type { Lut, Norm } from "./colour.ts";
import { colours } from "./colour.ts";
import type { Picture } from "./decode.ts";
import type { Painter } from "./painter.ts";
import type { View } from "./view.ts";

export class FlatPainter implements Painter {
    readonly kind = "canvas2d";
    private readonly whole = document.createElement("canvas");
    private drawn: { picture: Picture; lut: Lut; key: string } | undefined;

    constructor(private readonly context: CanvasRenderingContext2D) {}

    paint(picture: Picture, lut: Lut, norm: Norm, view: View, density: number): void {
        const key = JSON.stringify(norm);
        const old = this.drawn;
        if (old?.picture !== picture || old.lut !== lut || old.key !== key) {
            this.whole.width = picture.cols;
            this.whole.height = picture.rows;
            const image = new ImageData(colours(picture, lut, norm), picture.cols, picture.rows);
            this.whole.getContext("2d")!.putImageData(image, 0, 0);
            this.drawn = { picture, lut, key };
        }
        this.clear();
        const k = view.k * density;
        const [sy, sx] = picture.stride;
        this.context.imageSmoothingEnabled = k * Math.min(sy, sx) < 1;
        this.context.imageSmoothingQuality = "high";
        const width = picture.cols * sx * k;
        const height = picture.rows * sy * k;
        this.context.save();
        this.context.beginPath();
        this.context.rect(-view.ox * k, -view.oy * k, view.cols * k, view.rows * k);
        this.context.clip();
        this.context.drawImage(this.whole, -view.ox * k, -view.oy * k, width, height);
        this.context.restore();
    }

    clear(): void {
        this.context.clearRect(0, 0, this.context.canvas.width, this.context.canvas.height);
    }

    destroy(): void {
        this.whole.width = this.whole.height = 0;
    }
}

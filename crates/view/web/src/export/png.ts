// A figure as PNG.

import type { Figure } from "./figure.ts";

export async function toPng(figure: Figure): Promise<Blob> {
    const canvas = document.createElement("canvas");
    canvas.width = figure.width;
    canvas.height = figure.height;
    const context = canvas.getContext("2d")!;
    context.imageSmoothingEnabled = false;
    context.font = "13px system-ui, sans-serif";
    context.lineJoin = "round";
    for (const part of figure.parts) {
        if (part.kind === "image") context.drawImage(part.canvas, part.x, part.y, part.width, part.height);
        else if (part.kind === "rect") {
            context.fillStyle = part.fill;
            context.fillRect(part.x, part.y, part.width, part.height);
        } else if (part.kind === "path") {
            context.save();
            if (part.clip) {
                context.translate(0, 8);
                context.beginPath();
                context.rect(0, 0, part.clip[0], part.clip[1]);
                context.clip();
            }
            context.strokeStyle = part.stroke;
            context.lineWidth = part.width;
            context.stroke(new Path2D(part.d));
            context.restore();
        } else {
            context.textAlign = part.anchor === "middle" ? "center" : part.anchor;
            if (part.halo) {
                context.strokeStyle = "#000000";
                context.lineWidth = 3;
                context.strokeText(part.words, part.x, part.y);
            }
            context.fillStyle = part.fill;
            context.fillText(part.words, part.x, part.y);
        }
    }
    return new Promise((resolve, reject) => {
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large for this browser"))), "image/png");
    });
}

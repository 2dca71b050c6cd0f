// A figure as SVG: its pixels as an image inside, the rest as lines and words that can be changed.

import type { Figure, Part } from "./figure.ts";

const escaped = (text: string) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);
const n = (value: number) => String(Number(value.toFixed(2)));

function written(part: Part, index: number): string {
    switch (part.kind) {
        case "image":
            return `<image x="${n(part.x)}" y="${n(part.y)}" width="${n(part.width)}" height="${n(part.height)}" preserveAspectRatio="none" style="image-rendering:pixelated" xlink:href="${part.canvas.toDataURL("image/png")}"/>`;
        case "rect":
            return `<rect x="${n(part.x)}" y="${n(part.y)}" width="${n(part.width)}" height="${n(part.height)}" fill="${part.fill}"/>`;
        case "path": {
            const path = `<path d="${part.d}" fill="none" stroke="${part.stroke}" stroke-width="${part.width}"`;
            if (!part.clip) return `${path}/>`;
            const clip = `<clipPath id="clip${index}"><rect width="${n(part.clip[0])}" height="${n(part.clip[1])}"/></clipPath>`;
            return `<g transform="translate(0 8)">${clip}${path} clip-path="url(#clip${index})"/></g>`;
        }
        case "text": {
            const halo = part.halo ? ' stroke="#000000" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' : "";
            return `<text x="${n(part.x)}" y="${n(part.y)}" text-anchor="${part.anchor}" fill="${part.fill}"${halo}>${escaped(part.words)}</text>`;
        }
    }
}

export function toSvg(figure: Figure): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${figure.width}" height="${figure.height}" viewBox="0 0 ${figure.width} ${figure.height}" font-family="system-ui, sans-serif" font-size="13"><title>${escaped(figure.title)}</title>${figure.parts.map(written).join("\n")}</svg>\n`;
}

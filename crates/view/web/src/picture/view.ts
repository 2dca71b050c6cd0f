// Which part of a picture is seen: zoom and pan. The middle of the first pixel is (0, 0).

/** A zoom relative to the whole picture, and which pixel is in the middle. */
export interface Zoom {
    k: number;
    cy: number;
    cx: number;
}

export const MOST_ZOOM = 200;

/** How a picture of `rows` × `cols` pixels lies in a field of `height` × `width` points of the screen. */
export class View {
    /** Points of the screen for each pixel. */
    readonly k: number;
    /** What lies at the upper left corner, in pixels from the corner of the picture. */
    readonly oy: number;
    readonly ox: number;

    constructor(
        readonly rows: number,
        readonly cols: number,
        readonly height: number,
        readonly width: number,
        zoom: Zoom | null,
        /** A line has one row, which is as high as the field. */
        readonly line = false,
    ) {
        const fit = Math.max(1e-6, line ? width / cols : Math.min(width / cols, height / rows));
        this.k = fit * (zoom?.k ?? 1);
        const cy = (zoom?.cy ?? (rows - 1) / 2) + 0.5;
        const cx = (zoom?.cx ?? (cols - 1) / 2) + 0.5;
        this.oy = cy - height / this.k / 2;
        this.ox = cx - width / this.k / 2;
    }

    /** From pixels to points of the screen. */
    sy(y: number): number {
        return this.line ? (y + 0.5) * this.height : (y + 0.5 - this.oy) * this.k;
    }
    sx(x: number): number {
        return (x + 0.5 - this.ox) * this.k;
    }
    /** From points of the screen to pixels. */
    py(sy: number): number {
        return this.line ? 0 : sy / this.k + this.oy - 0.5;
    }
    px(sx: number): number {
        return sx / this.k + this.ox - 0.5;
    }
}

/** A zoom by `factor` that leaves the pixel (y, x) where it is. */
export function zoomed(zoom: Zoom | null, view: View, factor: number, y: number, x: number): Zoom | null {
    const before = zoom ?? { k: 1, cy: (view.rows - 1) / 2, cx: (view.cols - 1) / 2 };
    const k = Math.min(MOST_ZOOM, before.k * factor);
    if (k <= 1) return null;
    const ratio = before.k / k;
    return within({ k, cy: y + (before.cy - y) * ratio, cx: x + (before.cx - x) * ratio }, view);
}

/** A zoom moved by so many pixels. */
export function panned(zoom: Zoom | null, view: View, dy: number, dx: number): Zoom | null {
    if (!zoom) return null;
    return within({ k: zoom.k, cy: zoom.cy + dy, cx: zoom.cx + dx }, view);
}

/** The middle of what is seen is a pixel of the picture. */
function within({ k, cy, cx }: Zoom, { rows, cols }: View): Zoom {
    const clamp = (value: number, n: number) => Math.min(n - 0.5, Math.max(-0.5, value));
    return { k, cy: clamp(cy, rows), cx: clamp(cx, cols) };
}

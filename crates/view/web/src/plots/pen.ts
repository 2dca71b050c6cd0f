// Points joined by lines, as the path of an SVG.

export class Pen {
    private path = "";
    private points: string[] = [];

    to(x: number, y: number): void {
        this.points.push(`${x.toFixed(1)} ${y.toFixed(1)}`);
    }

    /** The next point is not joined to the last one. */
    lift(): void {
        const { points } = this;
        // A line of one point is not seen: it is a dot.
        if (points.length === 1) this.path += `M${points[0]!}m-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0`;
        else if (points.length) this.path += `M${points.join("L")}`;
        this.points = [];
    }

    drawn(): string {
        this.lift();
        return this.path;
    }
}

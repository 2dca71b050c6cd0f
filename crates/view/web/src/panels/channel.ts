// What is computed for one picture: its channel, its transform, and what vectors begin at.

import { el, numberField, pick, select, toggle, update } from "../dom.ts";
import type { ComPart, Pane, PatternChannel, ScanChannel, Transform, Vectors } from "../protocol.ts";
import { guessCom } from "../requests.ts";
import type { Viewer } from "../viewer.ts";

const PLAIN: [string, string][] = [
    ["sum", "Sum"],
    ["mean", "Mean"],
    ["std", "Standard deviation"],
    ["max", "Maximum"],
];
const COM: [ComPart, string][] = [
    ["vector", "Centre of mass: vectors"],
    ["magnitude", "Centre of mass: length"],
    ["y", "Centre of mass: y"],
    ["x", "Centre of mass: x"],
    ["divergence", "Centre of mass: divergence"],
    ["curl", "Centre of mass: curl"],
];

function keyOf(channel: ScanChannel | PatternChannel): string {
    if (channel.kind === "com") return `com:${channel.part}`;
    return channel.kind === "own" ? `own:${channel.name}:${channel.buffer}` : channel.kind;
}

function hasVectors(channel: ScanChannel | PatternChannel): channel is Extract<ScanChannel, Vectors> {
    return channel.kind === "com" || channel.kind === "idpc";
}

export class ChannelPanel {
    readonly root: HTMLElement;
    private readonly channel: HTMLSelectElement;
    private readonly transform: HTMLSelectElement;
    /** What vectors begin at and how they are turned; only of the scan. */
    readonly vectors: HTMLElement | undefined;
    private readonly rotation;
    private readonly flip: HTMLButtonElement;
    private readonly mean: HTMLButtonElement;
    private readonly cy;
    private readonly cx;
    /** Functions of the session; their names may have colons. */
    private readonly own: { kind: "own"; name: string; buffer: string }[];
    /** Kept while another channel is shown. */
    private kept: Vectors = { centre: "mean", rotation: 0, flip_y: false };

    constructor(
        private readonly viewer: Viewer,
        private readonly pane: Pane,
    ) {
        const scan = pane === "scan";
        const line = viewer.isLine(pane);
        this.own = viewer.description.own.flatMap(({ name, nav, sig }) => (scan ? nav : sig).map((buffer) => ({ kind: "own" as const, name, buffer })));
        const choices = [
            ...(scan ? PLAIN : [PLAIN[1]!, PLAIN[0]!, ...PLAIN.slice(2)]),
            ...(scan && !viewer.isLine("pattern") ? COM.map(([part, words]): [string, string] => [`com:${part}`, words]) : []),
            ...(scan && !viewer.isLine("pattern") && !line ? [["idpc", "Integrated DPC"] as [string, string]] : []),
            ...this.own.map((own): [string, string] => [keyOf(own), `${own.name}: ${own.buffer}`]),
        ];
        this.channel = select(scan ? "Channel of the scan image" : "Channel of the pattern", choices, "sum", (key) => this.choose(key));
        const transforms: [Transform, string][] = [["none", "as it is"], ["fft", "FFT"]];
        if (!scan) transforms.push(["ewpc", "EWPC"]);
        this.transform = select(scan ? "Transform of the scan image" : "Transform of the pattern", transforms, "none", (value) => {
            viewer.state[pane].query.transform = value as Transform;
            viewer.queryChanged(pane);
        });
        this.rotation = numberField("rotation", "°", 1, (value) => this.setVectors({ rotation: value }));
        this.rotation.input.dataset.field = "rotation";
        this.flip = toggle("Flip y", "Turn y round before the rotation", false, (on) => this.setVectors({ flip_y: on }));
        this.mean = toggle("Mean centre", "Vectors begin at the mean of all centres of mass", true, (on) =>
            this.setVectors({ centre: on ? "mean" : { at: viewer.middle("pattern") } }),
        );
        const at = (which: 0 | 1) => (value: number) => {
            const { centre } = this.kept;
            const point: [number, number] = centre === "mean" ? viewer.middle("pattern") : [...centre.at];
            point[which] = value;
            this.setVectors({ centre: { at: point } });
        };
        this.cy = numberField("centre y", "px", 1, at(0));
        this.cx = numberField("centre x", "px", 1, at(1));
        if (scan) {
            const guess = el("button", { type: "button", title: "Find rotation and flip such that vectors have no curl, and their centre", "data-guess": "com", onclick: () => guessCom(viewer) }, "Guess");
            this.vectors = el("div", { class: "ffv-section ffv-row" }, el("h3", {}, "Vectors"), this.rotation.root, this.flip, this.mean, this.cy.root, this.cx.root, guess);
        }
        this.root = el("div", { class: "ffv-row" }, this.channel, this.transform);
    }

    sync(): void {
        const { query } = this.viewer.state[this.pane];
        pick(this.channel, keyOf(query.channel));
        pick(this.transform, query.transform);
        if (!this.vectors) return;
        const shown = hasVectors(query.channel);
        update(this.vectors, { hidden: !shown });
        if (hasVectors(query.channel)) {
            const { centre, rotation, flip_y } = query.channel;
            this.kept = { centre, rotation, flip_y };
        }
        this.rotation.show(this.kept.rotation);
        update(this.flip, { "aria-pressed": String(this.kept.flip_y) });
        const { centre } = this.kept;
        update(this.mean, { "aria-pressed": String(centre === "mean") });
        for (const { root } of [this.cy, this.cx]) update(root, { hidden: centre === "mean" });
        if (centre !== "mean") {
            this.cy.show(centre.at[0]);
            this.cx.show(centre.at[1]);
        }
    }

    /** Sets where vectors begin and how they are turned. */
    setVectors(change: Partial<Vectors>): void {
        Object.assign(this.kept, change);
        const { query } = this.viewer.state.scan;
        if (hasVectors(query.channel)) {
            query.channel = { ...query.channel, ...this.kept };
            this.viewer.queryChanged("scan");
        }
    }

    private choose(key: string): void {
        const [kind, part] = key.split(":") as [string, string?];
        let channel: ScanChannel;
        if (kind === "com") channel = { kind, part: part as ComPart, ...this.kept };
        else if (kind === "idpc") channel = { kind, ...this.kept };
        else channel = this.own.find((own) => keyOf(own) === key) ?? { kind: kind as "sum" };
        this.viewer.state[this.pane].query.channel = channel as ScanChannel & PatternChannel;
        this.viewer.queryChanged(this.pane);
    }
}

// A viewer without a server, for tests of what the front end alone does: a small scan in the page's memory, and a
// notebook's model that answers as the viewer would.
import { pack, unpack } from "./messages.js";

const [NY, NX, SY, SX] = [40, 56, 64, 64];
const cube = new Float32Array(NY * NX * SY * SX);
for (let y = 0; y < NY; y++) {
    for (let x = 0; x < NX; x++) {
        const cy = 32 + 2 * Math.sin(x / 6);
        const cx = 32 + 2 * Math.cos(y / 5);
        const bright = Math.hypot(y - 20, x - 28) < 14 ? 1 : 0.3;
        for (let i = 0; i < SY; i++) {
            for (let j = 0; j < SX; j++) {
                const r = Math.hypot(i - cy, j - cx);
                const value = (r < 8 ? 100 : 0) + bright * 60 * Math.exp(-((r - 20) ** 2) / 6) + 1;
                cube[((y * NX + x) * SY + i) * SX + j] = value;
            }
        }
    }
}

function weights(shapes, rows, cols) {
    const w = new Float32Array(rows * cols).fill(shapes.length ? 0 : 1);
    for (const { shape, sign } of shapes) {
        for (let y = 0; y < rows; y++) {
            for (let x = 0; x < cols; x++) {
                const r = Math.hypot(y - shape.cy, x - shape.cx);
                const inside =
                    shape.kind === "disk" ? r <= shape.r
                    : shape.kind === "ring" || shape.kind === "wedge" ? r > shape.ri && r <= shape.ro
                    : shape.kind === "point" ? y === shape.y && x === shape.x
                    : shape.kind === "rectangle" ? y >= shape.y0 && y <= shape.y1 && x >= shape.x0 && x <= shape.x1
                    : false;
                if (inside) w[y * cols + x] += sign === "minus" ? -1 : 1;
            }
        }
    }
    return w;
}

function scan(query) {
    const w = weights(query.detector, SY, SX);
    const picked = [...w.keys()].filter((i) => w[i] !== 0);
    const com = query.channel.kind === "com";
    const planes = com ? [new Float32Array(NY * NX), new Float32Array(NY * NX)] : [new Float32Array(NY * NX)];
    for (let n = 0; n < NY * NX; n++) {
        let [sum, y, x] = [0, 0, 0];
        for (const i of picked) {
            const v = w[i] * cube[n * SY * SX + i];
            sum += v;
            y += v * Math.floor(i / SX);
            x += v * (i % SX);
        }
        if (com) [planes[0][n], planes[1][n]] = [y / sum - 32, x / sum - 32];
        else planes[0][n] = sum;
    }
    return { planes, shape: [NY, NX] };
}

function pattern(query) {
    const w = weights(query.region, NY, NX);
    const plane = new Float32Array(SY * SX);
    let total = 0;
    for (let n = 0; n < NY * NX; n++) {
        if (!w[n]) continue;
        total++;
        for (let i = 0; i < SY * SX; i++) plane[i] += cube[n * SY * SX + i];
    }
    return { planes: [plane.map((v) => v / total)], shape: [SY, SX] };
}

/** As anywidget's model: what a widget sends comes to `send`, what it hears goes to the listeners. */
export class MockModel {
    constructor(colormaps) {
        this.listeners = new Set();
        /** Who hears that the channel to the kernel is lost. */
        this.losers = new Set();
        this.colormaps = colormaps;
        this.asked = [];
    }

    on(event, listener) {
        if (event === "msg:custom") this.listeners.add(listener);
        if (event === "comm_live_update") this.losers.add(listener);
    }

    off(_event, listener) {
        this.listeners.delete(listener);
        this.losers.delete(listener);
    }

    say(message) {
        for (const listener of this.listeners) listener({ text: JSON.stringify(message) }, []);
    }

    sayBytes(head, body) {
        const bytes = pack(head, body);
        for (const listener of this.listeners) listener({}, [new DataView(bytes)]);
    }

    send(content, _callbacks, buffers) {
        if (content.ended) return;
        const message = content.text ? JSON.parse(content.text) : unpack(buffers[0]).head;
        setTimeout(() => this.answer(message), 0);
    }

    answer(message) {
        const axis = (name, size, scale, unit) => ({ name, size, scale, offset: 0, unit });
        if (message.type === "hello") {
            const description = {
                name: "mock.npy", format: "mock", dtype: "float32", warnings: [], excluded: [130, 131], n_missing: 0,
                nav: [axis("y", NY, 0.5, "nm"), axis("x", NX, 0.5, "nm")],
                sig: [axis("ky", SY, 0.02, "1/nm"), axis("kx", SX, 0.02, "1/nm")],
                suggested_shapes: [], own: [],
            };
            this.say({ type: "hello", version: 1, description, colormaps: this.colormaps, features: [] });
        } else if (message.type === "ask") {
            this.asked.push(message);
            const { pane, gen, query } = message;
            const { planes, shape } = pane === "scan" ? scan(query) : pattern(query);
            const body = new Float32Array(planes.reduce((n, plane) => n + plane.length, 0));
            planes.forEach((plane, i) => body.set(plane, i * plane.length));
            const names = planes.length > 1 ? ["y", "x"] : ["value"];
            this.sayBytes(
                { type: "picture", pane, gen, dtype: "f32", planes: names, shape, stride: [1, 1], state: "exact", label: "exact", progress: 1, axes: null },
                new Uint8Array(body.buffer),
            );
            this.say({ type: "done", pane, gen });
        } else if (message.type === "mask") this.say({ type: "mask", id: message.id, mask: 1, shape: [SY, SX] });
        else if (message.type === "guess") this.say({ type: "guess", id: message.id, cy: 32, cx: 32, r: 8, rotation: 0, flip_y: false });
    }
}

// The viewer: what was set, what came, and who has to know.

import { Asker, Link } from "./asker.ts";
import type { Asked } from "./asker.ts";
import { el } from "./dom.ts";
import { resized } from "./overlay/shapes.ts";
import { Header } from "./panels/header.ts";
import { Help, globalKey } from "./panels/help.ts";
import { PanePanel } from "./panels/pane.ts";
import { ScanShapes } from "./panels/scanshapes.ts";
import { greys, lutOf } from "./picture/colour.ts";
import type { Lut } from "./picture/colour.ts";
import { decode, isVector } from "./picture/decode.ts";
import type { Picture } from "./picture/decode.ts";
import type { PainterChoice } from "./picture/painter.ts";
import type { Zoom } from "./picture/view.ts";
import type { Axis, Description, Hello, Opened, Pane, Point, Query, Received, Shape, Signed } from "./protocol.ts";
import { ofHash, ofJson } from "./saved.ts";
import { Session, inWords } from "./session.ts";
import type { Answer } from "./session.ts";
import { extent, firstState, otherPane, setShapesOn, shapesOn, toHash, toJson } from "./state.ts";
import type { State } from "./state.ts";
import type { Transport } from "./transport.ts";
import { wheel } from "./picture/wheel.ts";

export interface Options {
    /** Whether it has a page of its own: the state is in the address then. */
    page?: boolean;
    painter?: PainterChoice;
    /** What is said besides where nothing has answered for a while. */
    late?: string;
}

/** What is to be opened. */
interface Opening {
    what: object;
    /** What is shown of it; what is shown first, if nothing is said. */
    state?: State;
    /** What it is called: words about it say so. */
    name?: string;
    /** What is done if it cannot be opened; if nothing is said, everything stays as it was. */
    otherwise?: (words: string) => void;
}

/** How long an answer may take before that is said, in milliseconds. */
const LATE = 3000;

/** Counted for tests and for those who wonder how fast it is. */
export interface Counts {
    painted: number;
    /** Pictures of older questions, which are dropped. */
    stale: number;
    /** From what the user did to the painted picture, in milliseconds; the last thousand. */
    latencies: number[];
    /** The questions whose pictures were painted; the last thousand. */
    paints: { pane: Pane; gen: number }[];
    painter: string;
    bytes: number;
}

const PANES: Pane[] = ["pattern", "scan"];
/** The colour map of angles, which vectors are drawn with. */
const DIRECTION = "direction";

export class Viewer {
    state!: State;
    description!: Description;
    private opened: Opened = { file: null, nav_shape: null, sync_offset: null };
    luts = new Map<string, Lut>();
    features: string[] = [];
    panels!: Record<Pane, PanePanel>;
    selected: Record<Pane, number> = { scan: 0, pattern: 0 };
    readonly page: boolean;
    readonly painter: PainterChoice;
    readonly counts: Counts = { painted: 0, stale: 0, latencies: [], paints: [], painter: "", bytes: 0 };
    private readonly session: Session;
    private readonly link = new Link();
    private readonly askers: Record<Pane, Asker>;
    private readonly arrived: Partial<Record<Pane, Picture>> = {};
    private readonly acks: { pane: Pane; gen: number }[] = [];
    private readonly dirtyPanes = new Set<Pane>();
    private readonly syncPanes = new Set<Pane>();
    private readonly help = new Help();
    private readonly hint = el("div", { class: "ffv-lost", role: "alert", hidden: true });
    private header: Header | undefined;
    private scanShapes: ScanShapes | undefined;
    /** What is being opened. */
    private underway: Opening | undefined;
    /** What is done after that: what was asked for last. */
    private next: (() => void) | undefined;
    /** What the panels were built for. */
    private built: Description | undefined;
    private connected = false;
    private frame = 0;
    private hashTimer: ReturnType<typeof setTimeout> | undefined;
    private destroyed = false;
    private wheel: Lut | undefined;
    private readonly onHash = () => this.readHash();
    private readonly onKey = (event: Event) => globalKey(this, event as KeyboardEvent);

    constructor(
        private readonly root: HTMLElement,
        transport: Transport,
        options: Options,
    ) {
        this.page = options.page ?? false;
        this.painter = options.painter ?? "auto";
        const send = (asked: Asked) => {
            const { pane, gen, query, wish } = asked;
            const [rows, cols] = extent(this.description, pane);
            const precision = this.link.precision(wish, rows * cols);
            if (this.connected) this.session.send({ type: "ask", pane, gen, query, wish, precision });
            this.panels[pane].asked(this.connected && wish === "exact");
        };
        this.askers = { scan: new Asker("scan", this.link, send), pattern: new Asker("pattern", this.link, send) };
        root.classList.add("ffv");
        const wait = el("p", { class: "ffv-wait", role: "status" }, "Opening …");
        root.append(wait);
        if (options.late) setTimeout(() => wait.append(` ${options.late}`), LATE);
        // A page's keys are its viewer's; those of a notebook are, where the viewer has the focus.
        (this.page ? document : root).addEventListener("keydown", this.onKey);
        if (this.page) window.addEventListener("hashchange", this.onHash);
        this.session = new Session(transport, {
            hello: (hello) => this.hello(hello),
            picture: (head, body, at) => this.came(decode(head, body, at), head.pane),
            done: ({ pane, gen }) => {
                this.askers[pane].finished(gen);
                if (gen === this.askers[pane].gen) this.panels[pane].ended();
            },
            progress: (message) => this.header?.progress(message),
            error: (error) => this.error(error),
            say: (words) => this.fail(words),
            connection: (open, reason) => this.connection(open, reason),
        });
        this.session.connect();
    }

    // --- What panels ask -----------------------------------------------------------------------

    axesOf(pane: Pane): Axis[] {
        return pane === "scan" ? this.description.nav : this.description.sig;
    }

    isLine(pane: Pane): boolean {
        return this.axesOf(pane).length < 2;
    }

    isVector(pane: Pane): boolean {
        const picture = this.panels?.[pane].stage.picture;
        return picture !== undefined && isVector(picture);
    }

    /** Rows and columns of the picture that a pane shows. */
    whole(pane: Pane): [number, number] {
        const { rows, cols } = this.panels[pane].stage.view;
        return [rows, cols];
    }

    /** The pixel in the middle, where the frequency 0 of a transform is. */
    middle(pane: Pane): Point {
        const [rows, cols] = this.panels ? this.whole(pane) : extent(this.description, pane);
        return [Math.floor(rows / 2), Math.floor(cols / 2)];
    }

    lutFor(pane: Pane): Lut {
        if (this.isVector(pane)) return this.luts.get(DIRECTION) ?? (this.wheel ??= wheel());
        return this.luts.get(this.state[pane].display.colormap) ?? this.luts.values().next().value!;
    }

    /** The state as scripts want it: with the colours that vectors have. */
    exported(): State {
        const state = structuredClone(this.state);
        for (const pane of PANES) {
            if (this.isVector(pane) && this.luts.has(DIRECTION)) state[pane].display.colormap = DIRECTION;
        }
        return state;
    }

    query(pane: Pane): Query {
        return { pane, ...this.state[pane].query } as Query;
    }

    /** Whether a pane shows an answer to the newest question. */
    isCurrent(pane: Pane): boolean {
        return this.panels?.[pane].stage.picture?.gen === this.askers[pane].gen;
    }

    /** Whether a pane shows the exact answer to the newest question. */
    settled(pane: Pane): boolean {
        const picture = this.panels?.[pane].stage.picture;
        const asker = this.askers[pane];
        return this.isCurrent(pane) && picture?.state === "exact" && asker.idle && this.frame === 0;
    }

    // --- What users do -------------------------------------------------------------------------

    selectShape(pane: Pane, index: number): void {
        if (this.selected[pane] === index) return;
        this.selected[pane] = index;
        this.noted(pane);
    }

    changeShape(pane: Pane, index: number, shape: Shape, input: number): void {
        const shapes = [...shapesOn(this.state, pane)];
        const before = shapes[index];
        if (!before) return;
        shapes[index] = { ...before, shape };
        this.setShapes(pane, shapes, input);
    }

    addShape(pane: Pane, signed: Signed): void {
        const shapes = [...shapesOn(this.state, pane), signed];
        this.selected[pane] = shapes.length - 1;
        this.setShapes(pane, shapes);
    }

    removeShape(pane: Pane, index: number): void {
        const shapes = shapesOn(this.state, pane).filter((_, i) => i !== index);
        this.selected[pane] = Math.max(0, Math.min(this.selected[pane], shapes.length - 1));
        this.setShapes(pane, shapes);
    }

    setSign(pane: Pane, index: number, sign: Signed["sign"]): void {
        this.setShapes(pane, shapesOn(this.state, pane).map((signed, i) => (i === index ? { ...signed, sign } : signed)));
    }

    /** Other shapes on a pane: the other pane's picture follows. `input` is when a moving pointer moved. */
    setShapes(pane: Pane, shapes: Signed[], input?: number): void {
        setShapesOn(this.state, pane, shapes);
        this.noted(pane);
        this.panels[pane].plotSoon();
        const other = otherPane(pane);
        if (input === undefined) this.ask(other);
        else this.askers[other].move(this.copy(other), input);
    }

    /** Another channel or transform of a pane. */
    queryChanged(pane: Pane): void {
        this.noted(pane);
        this.ask(pane);
    }

    /** Another index on an axis in front of the last two of the scan. */
    setSlice(axis: number, index: number, input: number): void {
        for (const pane of PANES) {
            this.state[pane].query.slice[axis] = index;
            this.noted(pane);
            this.askers[pane].move(this.copy(pane), input);
        }
    }

    displayChanged(pane: Pane): void {
        this.panels[pane].limits();
        this.panels[pane].plotSoon();
        this.noted(pane);
    }

    setZoom(pane: Pane, zoom: Zoom | null): void {
        this.state[pane].display.zoom = zoom;
        this.noted(pane);
        if (!this.state.linked) return;
        const other = otherPane(pane);
        const [rows, cols] = this.whole(pane);
        const [ny, nx] = this.whole(other);
        this.state[other].display.zoom = zoom && { k: zoom.k, cy: ((zoom.cy + 0.5) / rows) * ny - 0.5, cx: ((zoom.cx + 0.5) / cols) * nx - 0.5 };
        this.noted(other);
    }

    /** The selected shape of the detector larger or smaller by so many pixels. */
    resize(by: number, input: number): void {
        const index = this.selected.pattern;
        const signed = shapesOn(this.state, "pattern")[index];
        if (signed) this.changeShape("pattern", index, resized(signed.shape, by), input);
    }

    autoContrast(): void {
        for (const pane of PANES) {
            this.state[pane].display.auto = true;
            this.displayChanged(pane);
        }
    }

    /** Both pictures exactly. */
    exactly(): void {
        for (const pane of PANES) this.ask(pane);
    }

    cancel(pane: Pane): void {
        this.session.send({ type: "cancel", pane });
        this.askers[pane].reset();
        this.panels[pane].ended();
    }

    /** Opens the file anew with another shape of the scan, and as many frames before it, if that is said. */
    open(nav_shape: number[], sync_offset: number | null = null): void {
        this.reopen({ what: { ...this.same(), nav_shape, sync_offset }, state: this.state });
    }

    /** Opens another file, by the number that a list gave it. */
    openFile(file: string, name: string): void {
        this.reopen({ what: { file }, name });
    }

    /** Takes another state, as of a file. Throws in words if it is none. */
    load(text: string): void {
        this.adopt(ofJson(text, this.description), false);
    }

    /** Sends a request and calls `done` with its answer. */
    request(message: object, done: (answer: Answer, body: Uint8Array) => void, bytes?: Uint8Array): void {
        this.session.request(message, done, bytes ? { bytes } : {});
    }

    /** Tells the user something. */
    say(words: string, wrong = true): void {
        this.header?.say(words, wrong);
    }

    toggleHelp(): void {
        this.help.toggle();
    }

    reconnect(): void {
        this.hint.replaceChildren(el("span", {}, "Connecting …"));
        this.session.connect();
    }

    /** The state of a pane was changed: show it, and note it in the address. */
    noted(pane: Pane): void {
        this.syncPanes.add(pane);
        this.dirty(pane);
        if (!this.page) return;
        clearTimeout(this.hashTimer);
        this.hashTimer = setTimeout(() => history.replaceState(history.state, "", toHash(this.state)), 300);
    }

    /** A pane has to be drawn anew. */
    dirty(pane: Pane): void {
        this.dirtyPanes.add(pane);
        if (this.frame === 0 && !this.destroyed) this.frame = requestAnimationFrame(() => this.paint());
    }

    destroy(): void {
        this.destroyed = true;
        cancelAnimationFrame(this.frame);
        clearTimeout(this.hashTimer);
        window.removeEventListener("hashchange", this.onHash);
        document.removeEventListener("keydown", this.onKey);
        for (const pane of PANES) this.askers[pane].reset();
        this.session.close();
        if (this.panels) for (const pane of PANES) this.panels[pane].destroy();
        this.root.replaceChildren();
    }

    // --- What comes ----------------------------------------------------------------------------

    private came(picture: Picture, pane: Pane): void {
        this.counts.bytes += picture.bytes;
        if (!this.askers[pane].accepts(picture)) {
            this.counts.stale++;
            this.session.send({ type: "ack", pane, gen: picture.gen });
            return;
        }
        this.acks.push({ pane, gen: picture.gen });
        this.arrived[pane] = picture;
        this.dirty(pane);
    }

    private error(error: Extract<Received, { type: "error" }>): void {
        const { pane, gen, message, hint } = error;
        if (pane !== undefined && this.panels) {
            if (gen !== undefined && gen !== this.askers[pane].gen) return;
            this.askers[pane].finished(this.askers[pane].gen);
            this.panels[pane].complain(message, hint ?? "");
        } else {
            this.fail(inWords(error));
        }
    }

    /** Words for which there is no better place. */
    private fail(words: string): void {
        if (this.header) this.header.say(words, true);
        else this.root.replaceChildren(el("p", { class: "ffv-wait", role: "alert" }, words), this.hint);
    }

    private hello(hello: Hello): void {
        if (hello.version !== 1) {
            this.fail(`the viewer speaks version ${hello.version} of its messages, this page version 1: load the page again`);
            return;
        }
        const opened = hello.opened ?? this.opened;
        const again = !this.underway && this.built !== undefined && JSON.stringify([hello.description, opened]) === JSON.stringify([this.built, this.opened]);
        if (again) {
            // The same after a lost connection: everything stays as it is.
            this.exactly();
            return;
        }
        this.description = hello.description;
        this.opened = opened;
        this.features = hello.features ?? [];
        const names = hello.colormap_names ?? Object.keys(hello.colormaps);
        this.luts = new Map(names.map((name) => [name, lutOf(hello.colormaps[name]!)]));
        if (this.luts.size === 0) this.luts.set("gray", greys());
        this.begin(hello.state);
    }

    /** Shows what was there before, what the address says, what was given, or what is shown first. */
    private begin(given: unknown): void {
        const { underway, next } = this;
        this.underway = this.next = undefined;
        try {
            // What was set for one file says little of another.
            if (underway) this.show(underway.state ? ofJson(toJson(underway.state), this.description) : this.fresh());
            if (next) return next();
            if (underway) return;
            const address = this.page ? ofHash(location.hash) : undefined;
            const text = address ?? (given == null ? undefined : JSON.stringify(given));
            if (text === undefined) this.show(this.fresh());
            else this.adopt(ofJson(text, this.description), address !== undefined);
        } catch (error) {
            this.show(this.fresh());
            this.say(error instanceof Error ? error.message : String(error));
        }
    }

    private fresh(): State {
        const state = { ...firstState(this.description), name: this.description.name };
        for (const pane of PANES) {
            const { display } = state[pane];
            if (!this.luts.has(display.colormap)) display.colormap = this.luts.keys().next().value!;
        }
        return state;
    }

    /**
     * Shows a saved state, once the scan is laid out as that says. The state of an address has its file opened, too;
     * other states, and those whose file cannot be opened, are shown of the file that is open.
     */
    private adopt(state: State, ofAddress: boolean, why = ""): void {
        if (this.underway) {
            this.next = () => this.adopt(state, ofAddress, why);
            return;
        }
        const { file, name, nav_shape, sync_offset } = state;
        const { opened, description } = this;
        const scan = { nav_shape, sync_offset };
        if (ofAddress && file !== null && file !== opened.file) {
            // A number may be another file's since; the file itself may be this one.
            const otherwise = (words: string) => this.adopt(state, false, words);
            this.reopen({ what: { file, ...(name ? { name } : {}), ...scan }, state, name, otherwise });
            return;
        }
        const shape = description.nav.map(({ size }) => size);
        const other = nav_shape ? String(nav_shape) !== String(shape) : opened.nav_shape !== null;
        if (other || sync_offset !== opened.sync_offset) {
            this.reopen({ what: { ...this.same(), ...scan }, state });
        } else {
            this.show(state, why);
        }
    }

    /** Shows a state of what is open; `why`, if it is of another file that could not be opened. */
    private show(state: State, why = ""): void {
        const { name } = this.description;
        this.state = { ...state, ...this.opened, name };
        if (this.built === this.description) {
            this.selected = { scan: 0, pattern: 0 };
            for (const pane of PANES) this.noted(pane);
            this.header?.sync();
        } else {
            this.build();
        }
        if (state.name && state.name !== name) this.say(`this state was saved with ${state.name}, and is shown of ${name}${why && ": "}${why}`);
        this.exactly();
    }

    private build(): void {
        this.built = this.description;
        if (this.panels) for (const pane of PANES) this.panels[pane].destroy();
        this.selected = { scan: 0, pattern: 0 };
        this.header = new Header(this);
        this.panels = { pattern: new PanePanel(this, "pattern"), scan: new PanePanel(this, "scan") };
        this.scanShapes = new ScanShapes(this);
        this.root.replaceChildren(
            this.header.root,
            this.hint,
            this.scanShapes.root,
            el("main", { class: "ffv-panes" }, this.panels.pattern.root, this.panels.scan.root),
            this.help.root,
        );
        if (this.page) document.title = `${this.description.name} – framefold`;
        this.counts.painter = this.panels.scan.stage.painterKind;
        for (const pane of PANES) this.noted(pane);
    }

    private connection(open: boolean, reason: string): void {
        this.connected = open;
        for (const pane of PANES) this.askers[pane].reset();
        if (open) {
            this.hint.hidden = true;
            return;
        }
        this.acks.length = 0;
        if (this.panels) for (const pane of PANES) this.panels[pane].ended();
        const button = el("button", { type: "button", onclick: () => this.reconnect() }, "Reconnect");
        this.hint.replaceChildren(
            el("strong", {}, "The connection is lost."),
            el("span", {}, `${reason[0]?.toUpperCase() ?? ""}${reason.slice(1)}. What is shown stays as it was; nothing follows any more.`),
            button,
        );
        this.hint.hidden = false;
        if (!this.panels) this.root.replaceChildren(this.hint);
    }

    private readHash(): void {
        try {
            const text = ofHash(location.hash);
            if (text === undefined || !this.panels || location.hash === toHash(this.state)) return;
            // What was set before is not noted in place of what was typed.
            clearTimeout(this.hashTimer);
            this.adopt(ofJson(text, this.description), true);
        } catch (error) {
            this.fail(error instanceof Error ? error.message : String(error));
        }
    }

    // --- Asking and painting -------------------------------------------------------------------

    private paint(): void {
        this.frame = 0;
        if (this.destroyed || !this.panels) return;
        for (const pane of PANES) {
            const fresh = this.arrived[pane];
            delete this.arrived[pane];
            // It was the answer to the newest question when it came; the next one may be on its way since.
            if (fresh) {
                this.panels[pane].show(fresh);
                this.syncPanes.add(pane);
            }
            if (this.syncPanes.delete(pane)) this.panels[pane].sync();
            if (this.dirtyPanes.delete(pane)) this.panels[pane].paint();
            if (fresh) {
                this.counts.painted++;
                this.counts.paints.push({ pane, gen: fresh.gen });
                if (this.counts.paints.length > 1000) this.counts.paints.shift();
                const input = this.askers[pane].inputOf(fresh.gen);
                if (input !== undefined) {
                    this.counts.latencies.push(performance.now() - input);
                    if (this.counts.latencies.length > 1000) this.counts.latencies.shift();
                }
                if (pane === "scan") this.scanShapes?.show(fresh);
            }
        }
        for (const ack of this.acks.splice(0)) this.session.send({ type: "ack", ...ack });
    }

    private ask(pane: Pane): void {
        this.askers[pane].ask(this.copy(pane));
    }

    private copy(pane: Pane) {
        return structuredClone(this.state[pane].query);
    }

    /** The file that is shown, as `open` takes it: another one may be open by then. */
    private same(): { file?: string } {
        const { file } = this.opened;
        return file === null ? {} : { file };
    }

    /**
     * Opens something anew, one thing after the other: of what is asked for while another one is being opened, the last
     * is opened after that.
     */
    private reopen(opening: Opening): void {
        if (this.underway) {
            this.next = () => this.reopen(opening);
            return;
        }
        this.underway = opening;
        const { what, name = "", otherwise } = opening;
        const failed = (words: string) => {
            const { next } = this;
            this.underway = this.next = undefined;
            if (next) return next();
            if (otherwise) return otherwise(words);
            if (this.built !== this.description) this.show(this.fresh());
            this.say(words.includes(name) ? words : `${name} cannot be opened: ${words}`);
        };
        this.session.request({ type: "open", ...what }, () => {}, { failed });
    }
}

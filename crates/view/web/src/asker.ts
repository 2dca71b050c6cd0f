// When a pane asks: one question at a time while the pointer moves, the exact one when it rests.

import type { Picture } from "./picture/decode.ts";
import type { Pane, PatternQuery, Precision, ScanQuery, Wish } from "./protocol.ts";

/** How long the pointer rests before the exact picture is wanted. */
const REST_MS = 150;
/** How long an answer is waited for before a newer question replaces it; longer on slow links. */
const PATIENCE_MS = 100;
const MOST_PATIENCE_MS = 1500;
/** Below this rate, pictures have 8 bits while the pointer moves. */
const SLOW_BYTES_PER_S = 2e6;
/** From this rate on, exact pictures have 64 bits, however large they are. */
const FAST_BYTES_PER_S = 2e7;
/** So large a picture of 64 bits is no burden. */
const SMALL_BYTES = 4e6;

export interface Asked {
    pane: Pane;
    gen: number;
    query: ScanQuery | PatternQuery;
    wish: Wish;
}

/** How fast pictures come: the largest rate of the last few, as computing takes time, too. */
export class Link {
    private readonly rates: number[] = [];

    arrived(bytes: number, ms: number): void {
        // Small ones say how long a question takes, not how wide the link is.
        if (bytes < 4096) return;
        this.rates.push((bytes / Math.max(ms, 0.1)) * 1000);
        if (this.rates.length > 6) this.rates.shift();
    }

    get rate(): number {
        return this.rates.length ? Math.max(...this.rates) : FAST_BYTES_PER_S;
    }

    /** For a picture of so many numbers. */
    precision(wish: Wish, n: number): Precision {
        if (wish === "fast") return this.rate < SLOW_BYTES_PER_S ? "u8" : "u16";
        return 8 * n <= SMALL_BYTES || this.rate >= FAST_BYTES_PER_S ? "f64" : "f32";
    }
}

export class Asker {
    /** The number of the newest question. */
    gen = 0;
    /** Whether an exact picture is on its way. */
    busy = false;
    private query: ScanQuery | PatternQuery | undefined;
    private pending: Wish | undefined;
    private awaited = false;
    private sentAt = 0;
    private inputAt = 0;
    private resting = false;
    private typicalMs = 30;
    private restTimer: ReturnType<typeof setTimeout> | undefined;
    private patienceTimer: ReturnType<typeof setTimeout> | undefined;
    private readonly inputs = new Map<number, number>();
    /** When questions were sent whose answer has not come. */
    private readonly sent = new Map<number, number>();

    constructor(
        private readonly pane: Pane,
        private readonly link: Link,
        private readonly send: (asked: Asked) => void,
    ) {}

    /** Asks while the pointer moves; `input` is when the user did something. */
    move(query: ScanQuery | PatternQuery, input: number): void {
        this.query = query;
        this.pending = "fast";
        this.inputAt = input;
        clearTimeout(this.restTimer);
        this.restTimer = setTimeout(() => this.ask(this.query!), REST_MS);
        this.resting = true;
        this.pump();
    }

    /** Asks for the exact picture now. */
    ask(query: ScanQuery | PatternQuery): void {
        clearTimeout(this.restTimer);
        this.resting = false;
        this.query = query;
        this.pending = "exact";
        this.awaited = false;
        this.pump();
    }

    /** Whether a picture is of the newest question; what the link carries is learned from all. */
    accepts(picture: Picture): boolean {
        const current = picture.gen === this.gen;
        const sent = this.sent.get(picture.gen);
        for (const old of this.sent.keys()) if (old <= picture.gen) this.sent.delete(old);
        if (sent !== undefined) {
            const ms = performance.now() - sent;
            this.link.arrived(picture.bytes, ms);
            // Answers that come too late teach at once to wait longer.
            this.typicalMs = current ? this.typicalMs + (ms - this.typicalMs) * 0.3 : Math.max(this.typicalMs, ms);
        }
        if (current && this.awaited) this.answered();
        return current;
    }

    /** The newest question was answered in full, or with an error. */
    finished(gen: number): void {
        if (gen !== this.gen) return;
        this.busy = false;
        this.answered();
    }

    /** When the user did what led to a picture, if that is the first one that shows it. */
    inputOf(gen: number): number | undefined {
        const input = this.inputs.get(gen);
        for (const old of this.inputs.keys()) if (old <= gen) this.inputs.delete(old);
        return input;
    }

    /** Whether nothing is to be asked or answered. */
    get idle(): boolean {
        return !this.pending && !this.awaited && !this.busy && !this.resting;
    }

    /** Nothing is awaited any more: the connection was lost. */
    reset(): void {
        clearTimeout(this.restTimer);
        clearTimeout(this.patienceTimer);
        this.sent.clear();
        this.pending = undefined;
        this.awaited = false;
        this.busy = false;
        this.resting = false;
    }

    private answered(): void {
        this.awaited = false;
        this.pump();
    }

    private pump(): void {
        if (!this.pending || !this.query) return;
        clearTimeout(this.patienceTimer);
        if (this.awaited && this.pending === "fast") {
            const patience = Math.min(MOST_PATIENCE_MS, Math.max(PATIENCE_MS, 3 * this.typicalMs));
            const left = this.sentAt + patience - performance.now();
            if (left > 0) {
                this.patienceTimer = setTimeout(() => this.pump(), left);
                return;
            }
            this.typicalMs = Math.min(MOST_PATIENCE_MS, 1.5 * this.typicalMs);
        }
        const wish = this.pending;
        this.pending = undefined;
        this.awaited = true;
        this.busy = wish === "exact";
        this.sentAt = performance.now();
        this.gen++;
        this.sent.set(this.gen, this.sentAt);
        // Exact pictures are asked for when the pointer rests: how long they take is not how soon they follow.
        if (wish === "fast") this.inputs.set(this.gen, this.inputAt);
        this.send({ pane: this.pane, gen: this.gen, query: this.query, wish });
    }
}

// The talk with the viewer: what is sent and what comes, and whose answer is whose.

import { pack, unpack } from "./protocol.ts";
import type { Hello, PictureHead, Received } from "./protocol.ts";
import type { Transport } from "./transport.ts";

export type Answer = Extract<Received, { type: "file" | "files" | "guess" | "mask" }> | Hello;
type Trouble = Extract<Received, { type: "error" }>;
type Done = (answer: Answer, body: Uint8Array) => void;

/** Who hears what comes. */
export interface SessionHost {
    hello(hello: Hello): void;
    picture(head: PictureHead, body: ArrayBuffer, at: number): void;
    done(message: Extract<Received, { type: "done" }>): void;
    progress(message: Extract<Received, { type: "progress" }>): void;
    /** An error that is no answer to a request. */
    error(error: Trouble): void;
    /** What went wrong, in words. */
    say(words: string): void;
    connection(open: boolean, reason: string): void;
}

export class Session {
    private readonly waiting = new Map<number, { done: Done; failed: (words: string) => void }>();
    private nextId = 1;
    private open = false;

    constructor(
        private readonly transport: Transport,
        private readonly host: SessionHost,
    ) {
        transport.onmessage = (message) => this.receive(message);
        transport.onstate = (open, reason) => {
            this.open = open;
            if (open) this.send({ type: "hello", version: 1 });
            else {
                const lost = [...this.waiting.values()];
                this.waiting.clear();
                for (const { failed } of lost) failed("the connection was lost before the answer came");
            }
            host.connection(open, reason);
        };
    }

    connect(): void {
        this.transport.connect();
    }

    send(message: object): void {
        this.transport.send(JSON.stringify(message));
    }

    /** Sends a request, with bytes if there are some, and calls `done` with its answer. */
    request(message: object, done: Done, options: { bytes?: Uint8Array; failed?: (words: string) => void } = {}): void {
        const failed = options.failed ?? ((words) => this.host.say(words));
        if (!this.open) return failed("there is no connection to the viewer");
        const id = this.nextId++;
        this.waiting.set(id, { done, failed });
        const numbered = { ...message, id };
        if (options.bytes) this.transport.send(pack(numbered, options.bytes));
        else this.send(numbered);
    }

    close(): void {
        this.transport.onstate = () => {};
        this.transport.close();
    }

    private receive(message: string | ArrayBuffer): void {
        try {
            if (typeof message === "string") this.handle(JSON.parse(message) as Received, new ArrayBuffer(0), 0);
            else {
                const { head, body, at } = unpack(message);
                this.handle(head, body, at);
            }
        } catch (error) {
            this.host.say(`a message of the viewer could not be understood: ${error instanceof Error ? error.message : String(error)}`);
        }
    }

    private handle(message: Received, body: ArrayBuffer, at: number): void {
        switch (message.type) {
            case "hello":
                this.answered(message, new Uint8Array(0));
                this.host.hello(message);
                break;
            case "picture":
                this.host.picture(message, body, at);
                break;
            case "done":
                this.host.done(message);
                break;
            case "progress":
                this.host.progress(message);
                break;
            case "error":
                this.error(message);
                break;
            case "file":
            case "files":
            case "guess":
            case "mask":
                this.answered(message, new Uint8Array(body, at));
                break;
        }
    }

    private answered(answer: Answer, body: Uint8Array): void {
        if (answer.id === undefined) return;
        const waiting = this.waiting.get(answer.id);
        this.waiting.delete(answer.id);
        waiting?.done(answer, body);
    }

    private error(error: Trouble): void {
        const waiting = error.id === undefined ? undefined : this.waiting.get(error.id);
        if (!waiting) {
            this.host.error(error);
            return;
        }
        this.waiting.delete(error.id!);
        waiting.failed(inWords(error));
    }
}

/** What an error says, and what to do next. */
export function inWords({ message, hint }: Trouble): string {
    return hint ? `${message} (${hint})` : message;
}

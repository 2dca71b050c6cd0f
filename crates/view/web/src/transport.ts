// How messages travel: over a WebSocket (page), or over a notebook's channel (widget).

export interface Transport {
    /** Called with text, or with the bytes of a binary message. */
    onmessage: (message: string | ArrayBuffer) => void;
    /** Called once it is open, and once it is lost; `reason` is in words. */
    onstate: (open: boolean, reason: string) => void;
    /** Connects, again if it was lost. */
    connect(): void;
    send(message: string | ArrayBuffer): void;
    close(): void;
}

/** Where the WebSocket of a page is: beside it, whatever the prefix that a proxy puts before it. */
export function socketUrl(page: URL): string {
    const url = new URL("ws", new URL(".", page));
    url.protocol = page.protocol === "https:" ? "wss:" : "ws:";
    url.hash = "";
    return url.href;
}

export class SocketTransport implements Transport {
    onmessage: Transport["onmessage"] = () => {};
    onstate: Transport["onstate"] = () => {};
    private socket: WebSocket | undefined;

    constructor(private readonly url: string) {}

    connect(): void {
        this.close();
        const socket = new WebSocket(this.url);
        socket.binaryType = "arraybuffer";
        let opened = false;
        socket.onopen = () => {
            opened = true;
            this.onstate(true, "");
        };
        socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => this.onmessage(event.data);
        socket.onclose = (event) => {
            if (this.socket !== socket) return;
            this.socket = undefined;
            const why = event.reason || (opened ? "the viewer has ended, or the network broke" : "nothing answers");
            this.onstate(false, why);
        };
        this.socket = socket;
    }

    send(message: string | ArrayBuffer): void {
        if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(message);
    }

    close(): void {
        const socket = this.socket;
        this.socket = undefined;
        socket?.close();
    }
}

/** What anywidget gives a widget of its model. */
export interface WidgetModel {
    send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
    on(event: string, listener: (content: unknown, buffers: DataView[]) => void): void;
    off(event: string, listener: (content: unknown, buffers: DataView[]) => void): void;
    get?(name: string): unknown;
}

/** Why a notebook's channel is lost. */
const NO_KERNEL = "the kernel was restarted, or has ended: run the cell again";

/**
 * Text travels as `{"view": …, "text": …}`, bytes as the first buffer of `{"view": …}`. A notebook may show a widget
 * in several places, each of which hears all messages: `view` says which one a message is for.
 */
export class WidgetTransport implements Transport {
    onmessage: Transport["onmessage"] = () => {};
    onstate: Transport["onstate"] = () => {};
    private readonly view = Math.random().toString(36).slice(2);
    private readonly listener = (content: unknown, buffers: DataView[]) => this.receive(content, buffers);
    private readonly lost = () => this.onstate(false, NO_KERNEL);

    constructor(private readonly model: WidgetModel) {}

    connect(): void {
        this.unlisten();
        this.model.on("msg:custom", this.listener);
        // Of a model that is shown, a channel that is lost.
        this.model.on("comm_live_update", this.lost);
        // A later turn, as the caller of `connect` may not be ready to send.
        queueMicrotask(() => this.onstate(true, ""));
    }

    send(message: string | ArrayBuffer): void {
        try {
            if (typeof message === "string") this.model.send({ view: this.view, text: message });
            else this.model.send({ view: this.view }, undefined, [message]);
        } catch {
            // A later turn, as the caller may still be about to say that it is open.
            queueMicrotask(this.lost);
        }
    }

    close(): void {
        this.unlisten();
        try {
            this.model.send({ view: this.view, ended: true });
        } catch {
            // Of a channel that is lost, the session has ended with the kernel.
        }
    }

    private unlisten(): void {
        this.model.off("msg:custom", this.listener);
        this.model.off("comm_live_update", this.lost);
    }

    private receive(content: unknown, buffers: DataView[]): void {
        const { view, text, closed } = (content ?? {}) as { view?: unknown; text?: unknown; closed?: unknown };
        if (view !== undefined && view !== this.view) return;
        if (typeof closed === "string") {
            this.onstate(false, closed);
            return;
        }
        if (typeof text === "string") this.onmessage(text);
        for (const { buffer, byteOffset, byteLength } of buffers ?? []) {
            // Arrays of 8 bytes an entry want a buffer that begins with the message.
            const copy = new ArrayBuffer(byteLength);
            new Uint8Array(copy).set(new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength));
            this.onmessage(copy);
        }
    }
}

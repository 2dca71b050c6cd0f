// As anywidget's model: what a widget sends and hears travels over HTTP, tests/notebook_page.py has the other end.

function encoded(buffer) {
    let text = "";
    for (const byte of new Uint8Array(buffer)) text += String.fromCharCode(byte);
    return btoa(text);
}

const decoded = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

export class Model {
    listeners = new Set();
    /** One after the other: their order counts. */
    sending = Promise.resolve();

    constructor() {
        void this.listen();
    }

    on(event, listener) {
        if (event === "msg:custom") this.listeners.add(listener);
    }

    off(_event, listener) {
        this.listeners.delete(listener);
    }

    send(content, _callbacks, buffers = []) {
        const body = JSON.stringify({ content, buffers: buffers.map(encoded) });
        this.sending = this.sending.then(() => fetch("send", { method: "POST", body }));
    }

    async listen() {
        for (let n = 0; ; ) {
            const messages = await (await fetch(`messages?after=${n}`)).json();
            n += messages.length;
            for (const { content, buffers } of messages) {
                for (const listener of [...this.listeners]) listener(content, buffers.map(decoded));
            }
        }
    }
}

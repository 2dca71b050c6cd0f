// A proxy between browser and viewer: it may be slow, be under a prefix, or be cut.
import { createServer, connect } from "node:net";

/**
 * `rate` in bytes per second towards the browser, latency in ms. Paths outside of `prefix` are none; it is taken away from
 * the others, unless the viewer's own paths have it.
 */
export async function proxy(target, { rate = Infinity, latency = 0, prefix = "" } = {}) {
    const kept = prefix !== "" && target.pathname.startsWith(prefix);
    const open = new Set();
    let cut = false;
    const server = createServer((client) => {
        if (cut) return client.destroy();
        // When the link has room for more.
        let free = 0;
        const upstream = connect(Number(target.port), target.hostname.replace(/[[\]]/g, ""));
        for (const socket of [client, upstream]) {
            open.add(socket);
            socket.on("close", () => open.delete(socket));
            socket.on("error", () => {});
        }
        client.on("close", () => upstream.destroy());
        // What is on its way still comes.
        upstream.on("close", () => setTimeout(() => client.end(), cut ? 0 : Math.max(0, free - Date.now()) + latency + 5));
        let started = false;
        client.on("data", (bytes) => {
            // The head of each request comes in one piece: browsers write it so, and answers close the connection.
            if (prefix && !started) {
                const text = bytes.toString("latin1");
                const line = /^(\w+) (\S+) /.exec(text);
                if (!line || !line[2].startsWith(prefix)) return client.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                const upgrade = /\r\nupgrade:/i.test(text);
                const path = kept ? line[2] : line[2].slice(prefix.length - 1) || "/";
                let head = text.replace(line[2], path);
                if (!upgrade) head = head.replace(/\r\nconnection: [^\r]*/i, "\r\nConnection: close");
                bytes = Buffer.from(head, "latin1");
                started = upgrade;
            }
            upstream.write(bytes);
        });
        upstream.on("data", (bytes) => {
            if (rate === Infinity && latency === 0) return client.write(bytes);
            const now = Date.now();
            free = Math.max(free, now) + (bytes.length / rate) * 1000;
            const wait = free - now + latency;
            upstream.pause();
            setTimeout(() => upstream.resume(), Math.max(0, free - now));
            setTimeout(() => client.writable && client.write(bytes), wait);
        });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address();
    return {
        /** The viewer's link by way of the proxy. */
        link(url) {
            const link = new URL(url);
            link.port = String(port);
            if (prefix && !kept) link.pathname = prefix.replace(/\/$/, "") + link.pathname;
            return link.href;
        },
        cut() {
            cut = true;
            for (const socket of open) socket.destroy();
        },
        mend() {
            cut = false;
        },
        close() {
            this.cut();
            server.close();
        },
    };
}

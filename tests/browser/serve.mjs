// A page of files of this folder and of the built front end, for tests without a viewer behind it.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "../../crates/view/web/dist");
const FILES = {
    "/": [here, "mock.html", "text/html"],
    "/mock.js": [here, "mock.js", "text/javascript"],
    "/messages.js": [here, "messages.js", "text/javascript"],
    "/viewer.js": [dist, "viewer.js", "text/javascript"],
    "/viewer.css": [dist, "viewer.css", "text/css"],
};

export async function serveMock() {
    const server = createServer((request, response) => {
        const [folder, name, type] = FILES[request.url] ?? [];
        response.writeHead(name ? 200 : 404, { "content-type": `${type ?? "text/plain"}; charset=utf-8` });
        response.end(name ? readFileSync(join(folder, name)) : "");
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

// Binary messages as crates/view/PROTOCOL.md has them, written apart from the front end's own.
const MAGIC = "FFV1";

export function pack(head, body) {
    const text = JSON.stringify(head);
    const bytes = new TextEncoder().encode(text);
    const length = Math.ceil((bytes.length + 8) / 8) * 8 - 8;
    const all = new Uint8Array(8 + length + body.length).fill(32);
    all.set(new TextEncoder().encode(MAGIC));
    new DataView(all.buffer).setUint32(4, length, true);
    all.set(bytes, 8);
    all.set(body, 8 + length);
    return all.buffer;
}

export function unpack(buffer) {
    const length = new DataView(buffer).getUint32(4, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    return { head, body: new Uint8Array(buffer, 8 + length) };
}

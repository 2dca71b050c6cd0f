// How Chromium is started: with WebGL by a software renderer, or without any.
export const FLAGS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage", "--disable-background-networking"];
export const FLAGS_WITHOUT_WEBGL = [...FLAGS.filter((flag) => !flag.includes("swiftshader")), "--disable-gpu", "--disable-3d-apis"];

// How Chromium is started: with WebGL by a software renderer, or without any.
export const FLAGS = [
    "--no-sandbox",
    "--enable-unsafe-swiftshader",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    // Pages follow each other in one process: a fresh one for each takes as long as the page itself.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
];
export const FLAGS_WITHOUT_WEBGL = [...FLAGS.filter((flag) => !flag.includes("swiftshader")), "--disable-gpu", "--disable-3d-apis"];

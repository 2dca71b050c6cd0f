//! The page, its script and its style, as built from `web/`: for the server, and for notebooks.

/// The page around a viewer.
pub const PAGE: &[u8] = include_bytes!("../web/dist/index.html");
/// The one module: it mounts itself in the page, and exports what notebooks want.
pub const SCRIPT: &[u8] = include_bytes!("../web/dist/viewer.js");
/// The style of both.
pub const STYLE: &[u8] = include_bytes!("../web/dist/viewer.css");

//! The page, its script and its style: as built from `web/`, in the program.

pub(super) const PAGE: &[u8] = include_bytes!("../../web/dist/index.html");
pub(super) const SCRIPT: &[u8] = include_bytes!("../../web/dist/viewer.js");
pub(super) const STYLE: &[u8] = include_bytes!("../../web/dist/viewer.css");

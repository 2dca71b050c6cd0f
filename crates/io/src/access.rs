//! How the engine gets at bytes: of files and of memory, behind names that stay in their folder.

pub(crate) mod archive;
pub(crate) mod enclosure;
pub(crate) mod files;
pub(crate) mod names;
pub(crate) mod storage;

pub use storage::{SharedBytes, Storage};

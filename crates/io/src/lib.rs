//! Readers of detector file formats.

mod options;
mod storage;

pub use options::{Backend, OpenOptions, QuadGap};
pub use storage::{SharedBytes, Storage};

//! Readers of detector file formats.

mod options;

pub use options::{Backend, OpenOptions, QuadGap};

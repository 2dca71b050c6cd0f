//! Readers of detector file formats.

mod detect;
mod linear;
mod memory;
mod mib;
mod npy;
mod options;
mod raw;
mod recut;
mod storage;
mod strided;

pub use detect::{Detection, FORMATS, Format, PREFIX_LEN, Prefix, Verdict, detect, open, open_as};
pub use linear::{FrameDecoder, LinearFile, LinearSource, LinearSpec, Pixels, PlainDecoder};
pub use memory::{MemoryArray, MemorySource};
pub use options::{Backend, OpenOptions, QuadGap};
pub use storage::{SharedBytes, Storage};

//! Hostile files for every format: whatever the bytes, the answer is frames or an error in words.
//!
//! An input is a few bytes of options and the files of a data set, one after the other
//! ([`Input`]). [`check`] writes them to a folder in memory, opens them through the public
//! interface as one of [`TARGETS`], and reads them in the ways that the engine does. It fails if
//! the engine panics or calls an error its own, if two ways to read a frame differ, or if
//! anything needs memory beyond what the size of the input justifies ([`Memory`]).
//!
//! Three things feed it, all with the same functions: the tests of this crate run the committed
//! `corpus`, cut it everywhere, and change it at random for a bounded time, with the stable
//! compiler and nothing else; the program `guided` lets libFuzzer do so, guided by coverage
//! (`make fuzz TARGET=mib SECONDS=60`); and `corpus` keeps what either of them found.
#![forbid(unsafe_code)]

mod check;
mod corpus;
mod folder;
mod input;
mod memory;
mod mutate;
mod options;
mod target;

pub use check::{Frames, check, read_frames};
pub use corpus::{Seed, corpus};
pub use folder::Folder;
pub use input::{Input, Part};
pub use memory::Memory;
pub use mutate::Mutator;
pub use options::Choices;
pub use target::{TARGETS, Target};

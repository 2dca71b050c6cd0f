//! Readers against a naive oracle, and against files that lie.

mod hostile;
mod lending;
mod npy;
mod raw;
mod sets;
mod strided;

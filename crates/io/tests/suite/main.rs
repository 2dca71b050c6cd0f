//! Readers against a naive oracle, and against files that lie.
#![cfg(test)]

mod hostile;
mod lending;
mod npy;
mod oracle;
mod raw;
mod sets;
mod strided;

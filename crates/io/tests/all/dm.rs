//! The DM reader, seen from outside: real files, files written by the tests, stacks, and files that
//! are broken.

mod conformance;
mod hostile;
mod round_trip;
mod stacks;
mod writer;

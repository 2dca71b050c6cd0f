//! The tvips reader, seen from outside: real files where there are any, files written by the tests,
//! and files that are broken.

mod conformance;
mod hostile;
mod round_trip;
mod writer;

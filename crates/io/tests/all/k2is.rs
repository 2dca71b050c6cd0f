//! The k2is reader, seen from outside: real files where there are any, files written by the tests,
//! and files that are broken.

mod hostile;
mod lost;
mod round_trip;
mod writer;

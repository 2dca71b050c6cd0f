//! The MIB reader, seen from outside: real files, synthetic files of every mode, sets of files,
//! and files that are broken.

mod conformance;
mod hostile;
mod read;
mod round_trip;
mod sets;
mod writer;

//! The MIB reader, seen from outside: real files, synthetic files of every mode, sets of files,
//! and files that are broken.

#[cfg(test)]
#[path = "mib/conformance.rs"]
mod conformance;
#[cfg(test)]
#[path = "mib/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "mib/read.rs"]
mod read;
#[cfg(test)]
#[path = "mib/round_trip.rs"]
mod round_trip;
#[cfg(test)]
#[path = "mib/sets.rs"]
mod sets;
#[cfg(test)]
#[path = "mib/writer.rs"]
mod writer;

//! The DM reader, seen from outside: real files, files written by the tests, stacks, and files that
//! are broken.

#[cfg(test)]
#[path = "dm/conformance.rs"]
mod conformance;
#[cfg(test)]
#[path = "dm/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "suite/oracle.rs"]
mod oracle;
#[cfg(test)]
#[path = "support/real_files.rs"]
mod real_files;
#[cfg(test)]
#[path = "dm/round_trip.rs"]
mod round_trip;
#[cfg(test)]
#[path = "dm/stacks.rs"]
mod stacks;
#[cfg(test)]
#[path = "dm/writer.rs"]
mod writer;

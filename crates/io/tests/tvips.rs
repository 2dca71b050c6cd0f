//! The tvips reader, seen from outside: real files where there are any, files written by the tests,
//! and files that are broken.

#[cfg(test)]
#[path = "tvips/conformance.rs"]
mod conformance;
#[cfg(test)]
#[path = "tvips/hostile.rs"]
mod hostile;
#[cfg(test)]
#[expect(dead_code, reason = "not all dtypes are those of the format")]
#[path = "suite/oracle.rs"]
mod oracle;
#[cfg(test)]
#[path = "support/real_files.rs"]
mod real_files;
#[cfg(test)]
#[path = "tvips/round_trip.rs"]
mod round_trip;
#[cfg(test)]
#[path = "tvips/writer.rs"]
mod writer;

//! The k2is reader, seen from outside: real files where there are any, files written by the tests,
//! and files that are broken.

#[cfg(test)]
#[path = "k2is/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "k2is/lost.rs"]
mod lost;
#[cfg(test)]
#[expect(dead_code, reason = "there are no whole sets")]
#[path = "support/real_files.rs"]
mod real_files;
#[cfg(test)]
#[path = "k2is/round_trip.rs"]
mod round_trip;
#[cfg(test)]
#[path = "k2is/writer.rs"]
mod writer;

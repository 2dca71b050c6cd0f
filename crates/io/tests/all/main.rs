//! The readers and writers, seen from outside, in one program: a program each costs more to build
//! than to run.
#![cfg(test)]

mod calibrate;
mod conformance;
mod contiguous;
mod detect;
mod dm;
mod hdf5;
mod k2is;
mod mib;
mod oracle;
mod orient;
mod raw_csr;
mod real_files;
mod registry;
mod ser;
mod suite;
mod tvips;
mod write;

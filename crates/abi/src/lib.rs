//! The C interface through which framefold runs functions that others compiled.
//!
//! [`raw`] has the structs of `include/framefold.h`, which says what they mean. Nothing here needs another
//! crate, and its versions are its own: a plug-in that was compiled against version 1.0 works with
//! every later host of major version 1.

pub mod raw;

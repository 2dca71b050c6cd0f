//! A table of functions that was found to be in order.

use framefold_abi::raw::{self, UdfV1};
use framefold_core::{Error, Result};
use std::any::Any;
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;

/// What the tables of minor version 0 take; none was ever smaller.
const SMALLEST: usize = offset_of!(UdfV1, drop) + size_of::<Option<raw::DropFn>>();
/// A size above this is no size.
const LARGEST: usize = 1 << 16;
/// Longer names and messages are cut.
const LONGEST_TEXT: usize = 1 << 16;

/// A table of functions, and what keeps it alive.
pub struct Table {
    name: String,
    pub(crate) raw: UdfV1,
    /// Dropped last: what `raw` points to is its.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the law of `Table::try_new` has `self` and all functions be usable by several threads at once.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// Checks the table that `raw` points to, and copies it.
    ///
    /// # Errors
    /// `InvalidArgument` if the pointer is null or not aligned, the table is of another major version,
    /// says an impossible size, has no name, or lacks functions that must be there.
    ///
    /// # Safety
    /// `raw` is null or points to what says to be a `ff_udf_v1` by its `size` and `major`; if it is one of
    /// this major version, it obeys all that `framefold.h` says, for as long as `owner` is held. Its
    /// function `drop` is not called: that is the owner's affair.
    pub unsafe fn try_new(raw: *const UdfV1, owner: Arc<dyn Any + Send + Sync>) -> Result<Self> {
        if raw.is_null() {
            return Err(bad("the pointer to it is null"));
        }
        if !raw.is_aligned() {
            return Err(bad("the pointer to it is not aligned"));
        }
        // SAFETY: tables of all major versions begin with their size.
        let size = unsafe { (&raw const (*raw).size).read() };
        let expected = || format!("expected {SMALLEST} to {LARGEST}: set it to sizeof(ff_udf_v1)");
        if size < offset_of!(UdfV1, minor) || size > LARGEST {
            return Err(bad(format!("its size is {size} bytes, {}", expected())));
        }
        // SAFETY: `size` covers it.
        let major = unsafe { (&raw const (*raw).major).read() };
        if major != raw::MAJOR {
            let next = if major > raw::MAJOR {
                "update framefold, or build the function against an older framefold-abi"
            } else {
                "build the function against the framefold-abi of this version"
            };
            return Err(bad(format!(
                "it is of major version {major} of the interface, and this framefold knows {}",
                raw::MAJOR
            ))
            .with_hint(next));
        }
        if size < SMALLEST {
            return Err(bad(format!("its size is {size} bytes, {}", expected())));
        }
        let mut copy = MaybeUninit::<UdfV1>::zeroed();
        let known = size.min(size_of::<UdfV1>());
        // SAFETY: the table has `size` bytes; all of them zero is a table without functions, so that
        // the copy is valid however many of its members were there.
        let copy = unsafe {
            copy.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(raw.cast(), known);
            copy.assume_init()
        };
        // SAFETY: the name is part of a table that obeys.
        let name = unsafe { text(&copy.name) }
            .map_err(|found| bad(format!("its name is not UTF-8: '{found}'")))?;
        if name.is_empty() {
            return Err(bad("it has no name"));
        }
        let table = Table { name, raw: copy, _owner: owner };
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<()> {
        let raw = &self.raw;
        let missing = |entry: &str| {
            Err(Error::invalid(format!("its table has no function '{entry}'"))
                .with_udf(&self.name)
                .with_hint(format!("set the entry '{entry}' of ff_udf_v1")))
        };
        if raw.requirements.is_none() {
            return missing("requirements");
        }
        if raw.buffers.is_none() {
            return missing("buffers");
        }
        if raw.process.is_none() && raw.process_csr.is_none() {
            return missing("process");
        }
        match (raw.begin, raw.drop_task) {
            (Some(_), None) => missing("drop_task"),
            (None, Some(_)) => missing("begin"),
            _ => Ok(()),
        }
    }

    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("minor", &self.raw.minor)
            .finish_non_exhaustive()
    }
}

fn bad(why: impl fmt::Display) -> Error {
    Error::invalid(format!("a table of compiled functions cannot be used: {why}"))
}

/// A text, and what can be read of it if it is not UTF-8.
///
/// # Safety
/// `text` has `len` bytes, or a null pointer.
pub(crate) unsafe fn text(text: &raw::Text) -> Result<String, String> {
    if text.data.is_null() {
        return Ok(String::new());
    }
    // SAFETY: so many bytes are there, or more.
    let bytes =
        unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.len.min(LONGEST_TEXT)) };
    let read = String::from_utf8_lossy(bytes);
    match std::str::from_utf8(bytes) {
        Ok(valid) => Ok(valid.to_owned()),
        // Cut within a character.
        Err(error) if text.len > LONGEST_TEXT && error.error_len().is_none() => {
            Ok(read.trim_end_matches('\u{fffd}').to_owned())
        }
        Err(_) => Err(read.into_owned()),
    }
}

//! Words to the user: results on standard output, everything else on standard error.

use framefold::{Error, Result};
use std::error::Error as _;
use std::io::{ErrorKind, Write};

/// Prints a line of output.
///
/// # Errors
/// `Io`; see [`is_broken_pipe`] for the one that needs no words.
pub(crate) fn print(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("write to standard output", error))
}

/// Whether the reader of our output went away.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
}

/// Prints a warning.
pub(crate) fn warn(message: &str) {
    complain(&format!("warning: {message}"));
}

/// Prints a line to standard error. If even that fails there is nobody left to tell.
pub(crate) fn complain(message: &str) {
    let line = message.replace(['\n', '\r'], " ");
    let _ = writeln!(std::io::stderr().lock(), "framefold: {line}");
}

//! Words to the user: results on standard output, everything else on standard error.

use framefold::{Error, Result};
use std::error::Error as _;
use std::io::{ErrorKind, Write};
use std::path::Path;

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

/// Prints a warning about a file.
pub(crate) fn warn_of(file: &Path, message: &str) {
    warn(&format!("{}: {message}", file.display()));
}

/// Prints a line to standard error. An error of that is ignored: there is no other place for it.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "framefold: {}", one_line(message));
}

/// Text as a file may have it, in one line and without anything that a terminal would obey.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r', '\t']).map(str::trim_end).collect();
    let words = words.into_iter().filter(|words| !words.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        if c.is_control() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_files_stay_in_their_line() {
        assert_eq!(one_line("two\r\n\r\n  words\n"), "two   words");
        assert_eq!(one_line("\u{1b}[31mred\u{7}"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(one_line("5 µm"), "5 µm");
    }
}

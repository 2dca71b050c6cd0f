//! One error type for the whole engine, sorted by who has to act.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// The engine's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who must act on an error.
///
/// Deliberately exhaustive: tables that map kinds to exit codes or exception classes are
/// `match`es without a wildcard, so that a new kind cannot be forgotten in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller passed something that cannot work: change the call.
    InvalidArgument,
    /// A file is damaged or is not what it claims to be: look at the file.
    BadFile,
    /// Valid input that framefold cannot process: use another way, or ask for it.
    Unsupported,
    /// A size limit was exceeded: make the job smaller or raise the limit.
    Limit,
    /// The operating system refused: check permissions, disk and network.
    Io,
    /// The user's own function failed: look at its traceback.
    UserCode,
    /// The run was cancelled on request.
    Cancelled,
    /// framefold broke one of its own promises: report it.
    Bug,
}

impl ErrorKind {
    /// A short lower-case name, as used in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::BadFile => "bad file",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit => "limit exceeded",
            ErrorKind::Io => "i/o error",
            ErrorKind::UserCode => "error in user code",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Bug => "bug in framefold",
        }
    }
}

/// What went wrong, where, and what to do next.
///
/// The message says what was found and what was expected. Context (path, format, offset,
/// frame, partition, UDF) is kept apart, so that programs can read it and each layer can add
/// the part that only it knows. `Display` writes all of it on one line.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    path: Option<PathBuf>,
    format: Option<&'static str>,
    offset: Option<u64>,
    frame: Option<u64>,
    partition: Option<usize>,
    udf: Option<String>,
    repeats: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident),* $(,)?) => {$(
        #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
        pub fn $name(message: impl Into<String>) -> Self {
            Error::new(ErrorKind::$kind, message)
        }
    )*};
}

impl Error {
    /// An error of `kind` with a message: lower case, values quoted, no full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            path: None,
            format: None,
            offset: None,
            frame: None,
            partition: None,
            udf: None,
            repeats: false,
            source: None,
        }))
    }

    constructors! {
        invalid => InvalidArgument,
        bad_file => BadFile,
        unsupported => Unsupported,
        limit => Limit,
        user_code => UserCode,
        bug => Bug,
    }

    /// The run was cancelled on request.
    pub fn cancelled() -> Self {
        Error::new(ErrorKind::Cancelled, "the run was cancelled")
    }

    /// The operating system refused to do `what` ("open the file", "read 4096 bytes").
    pub fn io(what: impl fmt::Display, source: std::io::Error) -> Self {
        Error::new(ErrorKind::Io, format!("could not {what}: {source}")).with_source(source)
    }

    /// Adds the next step for the reader of the message; a second call replaces the first.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Names the file; the innermost caller wins, so outer layers may call it blindly.
    #[must_use]
    pub fn with_path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Names the format whose reader failed; the innermost caller wins.
    #[must_use]
    pub fn with_format(mut self, format: &'static str) -> Self {
        self.0.format.get_or_insert(format);
        self
    }

    /// Names the byte offset in the file; the innermost caller wins.
    #[must_use]
    pub fn with_offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the frame, counted in file order; the innermost caller wins.
    #[must_use]
    pub fn with_frame(mut self, frame: u64) -> Self {
        self.0.frame.get_or_insert(frame);
        self
    }

    /// Names the partition; the innermost caller wins.
    #[must_use]
    pub fn with_partition(mut self, partition: usize) -> Self {
        self.0.partition.get_or_insert(partition);
        self
    }

    /// Names the UDF; the innermost caller wins.
    #[must_use]
    pub fn with_udf(mut self, udf: impl Into<String>) -> Self {
        self.0.udf.get_or_insert_with(|| udf.into());
        self
    }

    /// Says that the UDF now knows what it lacked: the partition is to be processed once more.
    #[must_use]
    pub fn with_repeat(mut self) -> Self {
        self.0.repeats = true;
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Who must act.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What happened, without context and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The next step, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The file concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The format concerned.
    pub fn format(&self) -> Option<&'static str> {
        self.0.format
    }

    /// The byte offset in the file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The frame, counted in file order.
    pub fn frame(&self) -> Option<u64> {
        self.0.frame
    }

    /// The partition being processed.
    pub fn partition(&self) -> Option<usize> {
        self.0.partition
    }

    /// The UDF concerned.
    pub fn udf(&self) -> Option<&str> {
        self.0.udf.as_deref()
    }

    /// Whether the partition is to be processed once more.
    pub fn repeats(&self) -> bool {
        self.0.repeats
    }

    /// Takes the cause out, to hand a foreign exception back as itself.
    pub fn take_source(&mut self) -> Option<Box<dyn StdError + Send + Sync>> {
        self.0.source.take()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        if let Some(path) = &inner.path {
            write!(f, "'{}'", path.display())?;
            if let Some(format) = inner.format {
                write!(f, " ({format})")?;
            }
            if let Some(offset) = inner.offset {
                write!(f, " at byte {offset}")?;
            }
            write!(f, ": ")?;
        } else if let Some(format) = inner.format {
            write!(f, "{format}: ")?;
        }
        if let Some(udf) = &inner.udf {
            write!(f, "{udf}: ")?;
        }
        write!(f, "{}", inner.message)?;
        match (inner.frame, inner.partition) {
            (Some(frame), Some(partition)) => write!(f, " (frame {frame}, partition {partition})")?,
            (Some(frame), None) => write!(f, " (frame {frame})")?,
            (None, Some(partition)) => write!(f, " (partition {partition})")?,
            (None, None) => {}
        }
        if let Some(hint) = &inner.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_puts_place_message_and_hint_on_one_line() {
        let error = Error::bad_file("found 12 bytes, expected 384")
            .with_path("a.mib")
            .with_format("mib")
            .with_offset(64)
            .with_hint("copy the file again");
        assert_eq!(
            error.to_string(),
            "'a.mib' (mib) at byte 64: found 12 bytes, expected 384; copy the file again"
        );
    }

    #[test]
    fn the_innermost_context_wins() {
        let error = Error::invalid("x").with_path("inner").with_path("outer");
        assert_eq!(error.path(), Some(Path::new("inner")));
    }

    #[test]
    fn the_cause_is_kept() {
        let cause = std::io::Error::other("disk on fire");
        let error = Error::io("read 4 bytes", cause);
        assert!(StdError::source(&error).is_some());
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}

//! Words that come from Python and stand for a closed set: parsed once, with no default.

use framefold::core::{ArrayFormat, BufferKind, BufferUse, Method};
use framefold::{Error, Result};

/// A closed set of which each member has a word.
pub(crate) trait Word: Copy + 'static {
    /// What the word is for, in messages.
    const OF: &'static str;
    /// The words and what they stand for.
    const ALL: &'static [(&'static str, Self)];

    /// What `word` stands for.
    ///
    /// # Errors
    /// `InvalidArgument`, with the words that there are, for any other.
    fn parse(word: &str) -> Result<Self> {
        match Self::ALL.iter().find(|(known, _)| *known == word) {
            Some((_, meant)) => Ok(*meant),
            None => {
                let known: Vec<String> =
                    Self::ALL.iter().map(|(word, _)| format!("'{word}'")).collect();
                Err(Error::invalid(format!("there is no {} '{word}'", Self::OF))
                    .with_hint(format!("use {}", known.join(" or "))))
            }
        }
    }
}

/// Which method of a Python UDF processes the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processing {
    /// `process_tile`.
    Tile,
    /// `process_frames`: some whole frames at a time.
    Frames,
    /// `process_frame`: one after the other.
    Frame,
    /// `process_partition`.
    Partition,
}

impl Processing {
    /// What that asks of the planner.
    pub(crate) fn method(self) -> Method {
        match self {
            Processing::Tile => Method::Tile,
            Processing::Frames | Processing::Frame => Method::Frame,
            Processing::Partition => Method::Partition,
        }
    }
}

impl Word for Processing {
    const OF: &'static str = "method of processing";
    const ALL: &'static [(&'static str, Self)] = &[
        ("tile", Processing::Tile),
        ("frames", Processing::Frames),
        ("frame", Processing::Frame),
        ("partition", Processing::Partition),
    ];
}

impl Word for ArrayFormat {
    const OF: &'static str = "layout of tiles";
    const ALL: &'static [(&'static str, Self)] =
        &[("dense", ArrayFormat::Dense), ("csr", ArrayFormat::Csr)];
}

impl Word for BufferKind {
    const OF: &'static str = "kind of buffer";
    const ALL: &'static [(&'static str, Self)] =
        &[("nav", BufferKind::Nav), ("sig", BufferKind::Sig), ("single", BufferKind::Single)];
}

impl Word for BufferUse {
    const OF: &'static str = "use of a buffer";
    const ALL: &'static [(&'static str, Self)] = &[
        ("public", BufferUse::Public),
        ("private", BufferUse::Private),
        ("result_only", BufferUse::ResultOnly),
    ];
}

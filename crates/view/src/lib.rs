//! Pictures of scans larger than memory that follow the pointer, in a browser or a notebook.
//!
//! A [`Viewer`] holds a data set and answers a [`Query`] with [`Picture`]s that get better: a preview of few
//! frames at once, then what earlier passes left in memory, then the exact one. It knows no network:
//! `serve` puts it behind HTTP and a WebSocket, a notebook's widget behind messages of its own. Contrast and
//! colours are the client's affair.
#![forbid(unsafe_code)]

mod compute;
mod description;
pub mod export;
mod guesses;
mod host;
mod own;
pub mod page;
mod picture;
mod query;
#[cfg(feature = "serve")]
pub mod serve;
mod session;
mod shapes;
mod viewer;
mod watch;

pub use description::{AxisDescription, Description, OwnFunction};
pub use guesses::{ComGuess, DiskGuess};
pub use host::{
    Colormap, Entry, EntryKind, Files, HostOptions, Listing, Loaded, Opener, ScanChoice, Shown,
    ViewerHost,
};
pub use own::Own;
pub use picture::{Picture, State};
pub use query::{
    Centre, ComPart, PatternChannel, PatternQuery, Query, ScanChannel, ScanQuery, Transform,
};
pub use session::{MAX_BINARY, MAX_TEXT, Message, Precision, Session, encode};
pub use shapes::{Shape, Sign, Signed};
pub use viewer::{Viewer, ViewerOptions, Wish};
pub use watch::{Background, BackgroundState};

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
mod own;
mod picture;
mod query;
mod shapes;
mod viewer;

pub use description::{AxisDescription, Description, OwnFunction};
pub use guesses::{ComGuess, DiskGuess};
pub use own::Own;
pub use picture::{Picture, State};
pub use query::{
    Centre, ComPart, PatternChannel, PatternQuery, Query, ScanChannel, ScanQuery, Transform,
};
pub use shapes::{Shape, Sign, Signed};
pub use viewer::{Viewer, ViewerOptions, Wish};

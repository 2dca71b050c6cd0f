//! The stages, one file each, and the table of them.

mod bin;
mod cast;
mod count;
mod crop;
mod gaussian;
mod log;
mod median;
mod middle;
mod ordered;
mod pad;
mod rebin;
mod shift;
mod threshold;
mod window;

pub use rebin::Rebin;
pub use shift::Shifts;

use crate::arguments::Arguments;
use crate::row::StageRow;
use framefold_core::{Error, FrameKind, Result, Stage};
use std::sync::Arc;

/// All stages, in the order in which they are listed.
pub const STAGES: &[StageRow] = &[
    crop::ROW,
    bin::ROW,
    pad::ROW,
    shift::ROW,
    threshold::ROW,
    count::ROW,
    rebin::ROW,
    cast::ROW,
    log::ROW,
    gaussian::ROW,
    median::ROW,
];

/// The stage that `text` says, for frames of one kind: `bin 2,2 mean=true`.
///
/// Frames alone are not enough for [`Rebin`], which takes a scan.
///
/// # Errors
/// `InvalidArgument` if there is no such stage, or it does not fit the frames.
pub fn make(text: &str, input: FrameKind) -> Result<Arc<dyn Stage>> {
    let name = text.split_whitespace().next().unwrap_or_default();
    let row = STAGES.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = STAGES.iter().map(|row| row.name).collect();
        Error::invalid(format!("there is no stage '{name}'"))
            .with_hint(format!("choose one of {}", names.join(", ")))
    })?;
    (row.make)(&Arguments::parse(row, text)?, input)
}

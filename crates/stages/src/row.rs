//! What a stage says about itself.

use crate::arguments::Arguments;
use framefold_core::{FrameKind, Result, Stage};
use std::sync::Arc;

/// One stage: its row in the table [`STAGES`](crate::STAGES).
#[derive(Clone, Copy, Debug)]
pub struct StageRow {
    /// Its name, also as an option of the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// How its value is written.
    pub value: &'static str,
    /// What else can be said, as `name=value`.
    pub options: &'static [StageOption],
    /// A value to try it with.
    pub example: &'static str,
    pub(crate) make: Make,
}

/// One option of a stage.
#[derive(Clone, Copy, Debug)]
pub struct StageOption {
    /// Its name.
    pub name: &'static str,
    /// What it means, with its default, in one line.
    pub help: &'static str,
}

/// Makes the stage for frames of one kind.
pub(crate) type Make = fn(&Arguments<'_>, FrameKind) -> Result<Arc<dyn Stage>>;

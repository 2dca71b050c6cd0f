//! The contract of a stage: what makes other frames of the frames of a source, one by one.

use crate::{ArrayFormat, CsrRows, DType, DenseTile, Error, FrameIndices, Result, SigSlice};
use std::fmt::{Debug, Display};

/// What frames are: their shape and the dtype of their pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameKind {
    /// The shape of a frame.
    pub shape: Vec<usize>,
    /// The dtype of its pixels.
    pub dtype: DType,
}

/// Where the pixels of an axis were on that axis before: pixel `j` at `first + j * step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisMap {
    /// The place of the first pixel, in pixels of the axis before.
    pub first: f64,
    /// The distance of neighbours, in pixels of the axis before.
    pub step: f64,
}

impl AxisMap {
    /// That of an axis that stays as it is.
    pub const SAME: AxisMap = AxisMap { first: 0.0, step: 1.0 };
}

/// A stage between a source and the UDFs, made for frames of one kind.
///
/// Each frame that it gives is a function of the one frame at the same place and of its number, and of
/// nothing else: tiles may be asked for in any order, by many workers, and twice. [`Display`] says in a
/// few words what it does.
pub trait Stage: Send + Sync + Debug + Display {
    /// The frames it takes.
    fn input(&self) -> &FrameKind;

    /// The frames it gives.
    fn output(&self) -> &FrameKind;

    /// Where the pixels of each axis come from; `None` if the axes are others.
    fn axes(&self) -> Option<Vec<AxisMap>> {
        Some(vec![AxisMap::SAME; self.output().shape.len()])
    }

    /// How many of its counts one count of the frames that it takes becomes, over all pixels: less than 1 for
    /// means. `None` if its pixels are no such counts.
    fn counts_of_one(&self) -> Option<f64> {
        Some(1.0)
    }

    /// The smallest sensible tile on the axes of the frames it gives, by that of those it takes: as
    /// large, or a pixel if the axes are others.
    fn base_shape(&self, input: &[usize]) -> Vec<usize> {
        let shape = &self.output().shape;
        match self.axes() {
            Some(_) => input.iter().zip(shape).map(|(&base, &len)| base.min(len)).collect(),
            None => vec![1; shape.len()],
        }
    }

    /// Whether the cells it gives for a slice are those of [`StagePart::read`] as they are: nothing is
    /// computed then, and [`StagePart::apply`] is not called.
    fn passes(&self) -> bool {
        false
    }

    /// The layout of the frames it gives, unless it passes cells on as they are. Of [`ArrayFormat::Csr`],
    /// parts can do [`StagePart::append`] as well as [`StagePart::apply`].
    fn format(&self) -> ArrayFormat {
        ArrayFormat::Dense
    }

    /// Whether workers hinder each other in it, as where they take turns at an interpreter.
    fn contends(&self) -> bool {
        false
    }

    /// What is odd about the frames it makes, but no error: rows that are left out, say.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prepares the slice `sig` of the frames it gives. Called when a worker comes to another slice.
    ///
    /// # Errors
    /// `Bug` if there is no such slice; `Limit` if there is no memory.
    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>>;
}

/// One slice of the frames that a stage gives, for one worker.
pub trait StagePart {
    /// The slice of the frames it takes that has to be read.
    fn read(&self) -> &SigSlice;

    /// Writes the cells of each of `frames`, which are numbers of the source, to `out`, which has room for
    /// exactly these: one frame after the other, in the dtype of [`Stage::output`], native byte order,
    /// aligned for it. It may hold what was written for other frames: every cell has to be written. `tile` holds
    /// the cells that [`StagePart::read`] says.
    ///
    /// # Errors
    /// `Bug` if the tile is none of those; `InvalidArgument` if a pixel cannot be what the stage
    /// makes of it.
    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()>;

    /// The same as sparse rows: appends a row for each of `frames`, of cells of the slice that
    /// [`Stage::part`] was asked for. Called only where [`Stage::format`] says so.
    ///
    /// # Errors
    /// As [`StagePart::apply`]; `Limit` if there is no memory for the entries.
    fn append(
        &mut self,
        _tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        _rows: &mut CsrRows,
    ) -> Result<()> {
        Err(Error::bug(format!("{} frames were asked of a dense stage as rows", frames.len())))
    }
}

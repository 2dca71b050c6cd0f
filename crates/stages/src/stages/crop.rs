//! A part of each frame.

use crate::row::StageRow;
use framefold_core::{
    AxisMap, DenseTile, Error, FrameIndices, FrameKind, Result, SigSlice, Stage, StagePart,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "crop",
    summary: "only these rows and columns of each frame; no others are read",
    value: "Y0:Y1,X0:X1",
    options: &[],
    example: "8:56,8:56",
    make: |arguments, input| {
        let ranges = arguments.ranges(&input.shape)?;
        let shape = ranges.iter().map(ExactSizeIterator::len).collect();
        let output = FrameKind { shape, dtype: input.dtype };
        Ok(Arc::new(Crop { ranges, input, output }))
    },
};

#[derive(Debug)]
struct Crop {
    ranges: Vec<Range<usize>>,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Crop {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn axes(&self) -> Option<Vec<AxisMap>> {
        let maps = self.ranges.iter().map(|range| AxisMap { first: range.start as f64, step: 1.0 });
        Some(maps.collect())
    }

    fn passes(&self) -> bool {
        true
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let origin = sig.origin().iter().zip(&self.ranges).map(|(&at, range)| at + range.start);
        let shape = sig.shape().to_vec();
        Ok(Box::new(Part(SigSlice::try_within(origin.collect(), shape, &self.input.shape)?)))
    }
}

struct Part(SigSlice);

impl StagePart for Part {
    fn read(&self) -> &SigSlice {
        &self.0
    }

    fn apply(&mut self, _: &DenseTile<'_>, _: &FrameIndices<'_>, _: &mut [u8]) -> Result<()> {
        Err(Error::bug("a crop passes on what is read"))
    }
}

impl fmt::Display for Crop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.ranges.iter().map(|range| format!("{}:{}", range.start, range.end));
        write!(f, "crop {}", ranges.collect::<Vec<_>>().join(","))
    }
}

//! A data set that answers queries.

use crate::{AxisDescription, Description, Picture, Query, State};
use framefold::core::{Axis, AxisKind};
use framefold::{Cancel, Dataset, Error, Result};

/// How much a viewer may use.
#[derive(Clone, Debug, Default)]
pub struct ViewerOptions {
    /// How many bytes of what passes leave may stay in memory; by default a quarter of the memory of this
    /// machine, at most 4 GiB.
    pub budget: Option<u64>,
}

/// How good an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// What can be had at once: the pointer moves.
    Fast,
    /// Better and better up to the exact picture: the pointer rests.
    Exact,
}

/// A data set that answers queries, from any number of threads.
#[derive(Debug)]
pub struct Viewer {
    name: String,
    dataset: Dataset,
}

impl Viewer {
    /// A viewer of `dataset`, called `name`. Reads no pixel.
    ///
    /// # Errors
    /// `Unsupported` if frames have more than two axes.
    pub fn try_new(name: String, dataset: Dataset, options: ViewerOptions) -> Result<Self> {
        let _ = options;
        Ok(Viewer { name, dataset })
    }

    /// What clients have to know.
    pub fn describe(&self) -> Description {
        let axes = self.dataset.axes();
        let of = |kind| axes.iter().filter(|axis| axis.kind == kind).map(described).collect();
        Description {
            name: self.name.clone(),
            format: self.dataset.source().info().format.to_string(),
            dtype: self.dataset.pixel_dtype().to_string(),
            nav: of(AxisKind::Nav),
            sig: of(AxisKind::Sig),
            warnings: self.dataset.warnings(),
            excluded: Vec::new(),
            n_missing: 0,
            suggested_shapes: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Answers with better and better pictures, the last of which is what `wish` asks for, and returns after
    /// that. Waits while others compute. Blocks: call it from a thread that may.
    ///
    /// # Errors
    /// `InvalidArgument` if the query does not fit the data set; those of reading; that of `emit`; `Cancelled`.
    pub fn answer(
        &self,
        query: &Query,
        wish: Wish,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()> {
        cancel.check()?;
        let _ = (query, wish);
        let n = 64;
        let values = (0..n * n).map(|i| (i / n) as f64).collect();
        emit(Picture {
            planes: vec!["value".to_owned()],
            shape: vec![n, n],
            values,
            stride: [1, 1],
            state: State::Exact,
            label: "exact".to_owned(),
            progress: 1.0,
            axes: None,
        })?;
        Err(Error::unsupported("no query is answered yet"))
    }
}

fn described(axis: &Axis) -> AxisDescription {
    let Axis { name, size, scale, offset, unit, .. } = axis.clone();
    AxisDescription { name, size, scale, offset, unit }
}

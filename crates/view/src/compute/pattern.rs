//! Pictures of frames: those of a region of the scan, pixel by pixel.

use super::gate::Urgent;
use super::grid::{Grid, Stride};
use super::pace::Read;
use super::pass;
use super::pixel::refuse_complex;
use super::transform::{self, Plane};
use crate::viewer::Shared;
use crate::{PatternChannel, PatternQuery, Picture, Signed, State, Transform, Wish};
use framefold::core::{Array, AxisKind, DType, NativeArray, Udf, memory};
use framefold::core::{FramesView, TileFrames};
use framefold::kernels::{Max, StdDev, Sum};
use framefold::{Cancel, Error, Result, Roi, RunResults};
use std::sync::Arc;
use std::time::Instant;

/// What a result of a pass is a result of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PatternKey {
    what: What,
    region: Vec<Signed>,
    grid: Grid,
}

/// What is computed of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Sum,
    Mean,
    Std,
    Max,
}

/// One question, and all that its answers need.
struct Asked<'a> {
    shared: &'a Shared,
    transform: Transform,
    grid: Grid,
    what: What,
    roi: Option<Arc<Roi>>,
}

pub(crate) fn answer(
    shared: &Shared,
    query: &PatternQuery,
    wish: Wish,
    cancel: &Cancel,
    emit: &mut dyn FnMut(Picture) -> Result<()>,
) -> Result<()> {
    let grid = Grid::try_new(&shared.dataset, &query.slice)?;
    let what = match &query.channel {
        PatternChannel::Own { name, buffer } => {
            return super::own::answer(
                shared,
                (name, buffer),
                AxisKind::Sig,
                query.transform,
                cancel,
                emit,
            );
        }
        PatternChannel::Sum => What::Sum,
        PatternChannel::Mean => What::Mean,
        PatternChannel::Std => What::Std,
        PatternChannel::Max => What::Max,
    };
    let dtype = shared.dataset.pixel_dtype();
    if dtype.is_complex() {
        return Err(refuse_complex(dtype));
    }
    let roi = grid.region(&query.region, &shared.masks())?;
    let asked = Asked { shared, transform: query.transform, grid, what, roi };
    let key = PatternKey { what, region: query.region.clone(), grid };
    if let Some(values) = shared.patterns.get(&key) {
        return emit(asked.picture(&values, State::Exact, "exact".into(), 1.0)?);
    }
    if asked.roi.is_none()
        && let Some(values) = shared.store().and_then(|store| store.pattern(what))
    {
        return emit(asked.picture(&values, State::Exact, "exact".into(), 1.0)?);
    }
    let n_frames = asked.n_frames();
    // A frame is never in parts.
    let at_once = n_frames <= 1 || shared.pace.at_once(n_frames, 1.0);
    if !at_once {
        asked.preview(cancel, emit)?;
        if wish == Wish::Fast {
            return Ok(());
        }
    }
    let values = Arc::new(asked.exact(at_once, cancel, emit)?);
    let len_bytes = (values.len() * size_of::<f64>()) as u64;
    shared.patterns.put(key, values.clone(), len_bytes);
    emit(asked.picture(&values, State::Exact, "exact".into(), 1.0)?)
}

impl Asked<'_> {
    fn n_frames(&self) -> usize {
        self.roi.as_ref().map_or(self.grid.n_all, |roi| roi.n_selected())
    }

    /// What comes of some of the frames.
    fn preview(&self, cancel: &Cancel, emit: &mut dyn FnMut(Picture) -> Result<()>) -> Result<()> {
        let n_all = self.n_frames();
        let stride = self.shared.pace.stride_within(&self.grid, n_all);
        let roi = match &self.roi {
            None => self.grid.roi(stride)?,
            Some(roi) => Some(self.grid.thinned(roi, stride)?),
        };
        let n_frames = roi.as_ref().map_or(n_all, |roi| roi.n_selected()).max(1);
        let start = Instant::now();
        let results =
            pass::run(&self.shared.dataset, self.udfs(), roi, cancel, &mut |_, _| Ok(()))?;
        self.shared.pace.seen(Read::Apart, n_frames, 1.0, start);
        let share = n_all as f64 / n_frames as f64;
        let Some(mut values) = self.values(&results)? else { return Ok(()) };
        if self.what == What::Sum {
            // As bright as the sum of all will be.
            values.iter_mut().for_each(|value| *value *= share);
        }
        let label = format!("preview 1/{share:.0}");
        emit(self.picture(&values, State::Preview, label, 1.0 / share)?)
    }

    fn exact(
        &self,
        at_once: bool,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let n_frames = self.n_frames();
        // A frame or two need not wait for a pass over the whole scan.
        let _pass = if at_once { None } else { Some(self.shared.gate.pass(cancel)?) };
        let start = Instant::now();
        let roi = self.roi.clone();
        let mut udfs = self.udfs();
        if !at_once {
            udfs.push(self.shared.rest(Urgent::Following, cancel));
        }
        let results =
            pass::run(&self.shared.dataset, udfs, roi, cancel, &mut |results, progress| {
                // In bands, parts of the frame are further than others.
                if !results.plan().tiling().is_full_frame() || self.transform != Transform::None {
                    return Ok(());
                }
                let Some(values) = self.values(&results.snapshot()?)? else { return Ok(()) };
                let label = format!("exact, {:.0} % so far", 100.0 * progress);
                emit(self.picture(&values, State::Partial, label, progress)?)
            })?;
        self.shared.pace.seen(Read::Together, n_frames, 1.0, start);
        match self.values(&results)? {
            Some(values) => Ok(values),
            // Positions without data alone.
            None => memory::filled(f64::NAN, self.shared.sig.len()),
        }
    }

    fn udfs(&self) -> Vec<Arc<dyn Udf>> {
        vec![match self.what {
            What::Sum | What::Mean => Arc::new(Sum { dtype: DType::F64 }),
            What::Std => Arc::new(StdDev { dtype: Some(DType::F64) }),
            What::Max => Arc::new(Max),
        }]
    }

    /// The values of a frame; `None` if there was no frame.
    fn values(&self, results: &RunResults) -> Result<Option<Vec<f64>>> {
        let n_frames = results.valid.iter().filter(|&&valid| valid).count();
        if n_frames == 0 {
            return Ok(None);
        }
        let name = if self.what == What::Std { "std" } else { "intensity" };
        let buffer = results.udfs.first().and_then(|udf| udf.get(name));
        let Some(Array::Native(array)) = buffer.map(|buffer| &buffer.array) else {
            return Err(Error::bug(format!("a run has no result '{name}'")));
        };
        let mut values = in_double(array)?;
        if self.what == What::Mean {
            values.iter_mut().for_each(|value| *value /= n_frames as f64);
        }
        Ok(Some(values))
    }

    fn picture(
        &self,
        values: &[f64],
        state: State,
        label: String,
        progress: f64,
    ) -> Result<Picture> {
        let axes = crate::viewer::axes_of(&self.shared.dataset, AxisKind::Sig);
        let shape = self.shared.sig.shape();
        let steps = vec![1; shape.len()];
        let planes = vec![Plane { name: "value", values: memory::copied(values)? }];
        let transformed = transform::apply(self.transform, planes, shape, &axes, &steps)?;
        Ok(Picture {
            planes: transformed.names,
            shape: transformed.shape,
            values: transformed.values,
            stride: [Stride::ONE.rows, Stride::ONE.columns],
            state,
            label,
            progress,
            axes: transformed.axes,
        })
    }
}

/// Real values in double precision.
pub(crate) fn in_double(array: &NativeArray) -> Result<Vec<f64>> {
    let (bytes, len) = (array.values().as_bytes(), array.values().len());
    if len == 0 {
        return Ok(Vec::new());
    }
    let frames = TileFrames::from_bytes(array.dtype(), bytes, 1, len, len)?;
    fn values<T: super::pixel::Pixel>(view: FramesView<'_, T>) -> Result<Vec<f64>> {
        memory::collected(view.frame(0).iter().map(|pixel| pixel.value()))
    }
    match frames {
        TileFrames::Bool(view) => values(view),
        TileFrames::U8(view) => values(view),
        TileFrames::U16(view) => values(view),
        TileFrames::U32(view) => values(view),
        TileFrames::U64(view) => values(view),
        TileFrames::I8(view) => values(view),
        TileFrames::I16(view) => values(view),
        TileFrames::I32(view) => values(view),
        TileFrames::I64(view) => values(view),
        TileFrames::F16(view) => values(view),
        TileFrames::F32(view) => values(view),
        TileFrames::F64(view) => values(view),
        TileFrames::C64(_) | TileFrames::C128(_) => Err(refuse_complex(array.dtype())),
    }
}

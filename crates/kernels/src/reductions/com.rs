//! The centre of mass of each frame.

mod columns;
mod mass;
mod rectangles;
mod region;
mod small;
mod sparse;

use crate::dispatch::dispatch_dtype;
use crate::entries::{Entries, Pixels, dense_or_sparse};
use crate::nav::NavRows;
use crate::reductions::masks::geometry::{RowSpans, row_spans};
use crate::row::{DefaultValue, Look, Parameter, ParameterKind, Reduction};
use crate::shifts::Shifts;
use columns::{Band, Columns, FrameSums};
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, BufferUse, CsrTile, DType, Error, FramesView,
    JobMeta, Merger, NativeArray, Partial, Partition, Requirements, Result, RunMeta, SigSlice,
    SourceInfo, Tile, TilePosition, TypedVec, Udf, memory,
};
use framefold_simd::{Simd, run};
use mass::{BAND_ROWS, ColumnSum, Mass, Moment};
use rectangles::{Rectangle, rectangles};
use region::Region;
use sparse::Moments;
use std::ops::Range;
use std::sync::Arc;

pub(super) const ROW: Reduction = Reduction::new(
    "com",
    "centre of mass of each frame, and the field of its shifts",
    &["raw_com", "raw_shifts", "field", "field_y", "field_x", "magnitude"],
    |parameters, _| {
        Ok(Arc::new(Com {
            cy: parameters.number("cy")?,
            cx: parameters.number("cx")?,
            r: parameters.number("r")?.unwrap_or(f64::INFINITY),
            ri: parameters.number("ri")?.unwrap_or(0.0),
            scan_rotation: parameters.number("scan_rotation")?.unwrap_or(0.0),
            flip_y: parameters.switch("flip_y")?,
            shifts_only: parameters.switch("shifts_only")?,
            shifts: parameters.shifts()?.map(Arc::new),
        }))
    },
)
.with_main_buffer("field")
.with_look(Look::Vectors)
.with_unit("px")
.with_parameters(&[
    Parameter::new("cy", ParameterKind::Number, MIDDLE, "row of the reference point")
        .with_unit("px"),
    Parameter::new("cx", ParameterKind::Number, MIDDLE, "column of the reference point")
        .with_unit("px"),
    Parameter::new(
        "r",
        ParameterKind::Radius,
        DefaultValue::Is("inf"),
        "only pixels up to this distance from the reference point count",
    )
    .with_option("radius")
    .with_unit("px"),
    Parameter::new(
        "ri",
        ParameterKind::Radius,
        DefaultValue::Is("0"),
        "only pixels farther away than this count; all inner ones if it is 0",
    )
    .with_option("inner-radius")
    .with_unit("px"),
    Parameter::new(
        "scan_rotation",
        ParameterKind::Number,
        DefaultValue::Is("0"),
        "angle between the scan and the detector",
    )
    .with_option("scan-rotation")
    .with_unit("degrees"),
    Parameter::new(
        "flip_y",
        ParameterKind::Switch,
        DefaultValue::Is("false"),
        "whether the detector's rows run against the scan's",
    )
    .with_option("flip-y"),
    Parameter::new(
        "shifts_only",
        ParameterKind::Switch,
        DefaultValue::Is("false"),
        "whether to give raw_com and raw_shifts alone",
    )
    .without_option(),
    Parameter::new(
        "shifts",
        ParameterKind::Array,
        DefaultValue::Nothing,
        "how far the reference point is moved: an array of (dy, dx), of shape (2) for all frames, \
         or (positions, 2) or (scan axes, 2) for each position of the scan",
    )
    .with_unit("px"),
]);

const MIDDLE: DefaultValue = DefaultValue::Found("the middle of the frame");

/// Finds the centre of mass of each selected frame, whole or within a disk or ring.
///
/// Buffers of kind `nav`, in the common dtype of the data and float32:
///
/// | buffer | extra shape | what |
/// |---|---|---|
/// | `raw_com` | (2,) | (y, x) in pixels of the frame |
/// | `raw_shifts` | (2,) | `raw_com` relative to (`cy`, `cx`) |
/// | `field` | (2,) | `raw_shifts` flipped, then rotated into scan coordinates |
/// | `field_y`, `field_x` | – | its components |
/// | `magnitude` | – | its length |
///
/// A frame whose pixels sum to zero has its centre of mass at (`cy`, `cx`). Pixels outside of the
/// ring are not looked at: NaN there does no harm. Row sums of integers are exact. With `shifts`,
/// (`cy`, `cx`) is moved for each frame, wherever it is meant above.
#[derive(Clone, Debug)]
pub struct Com {
    /// The row of the reference point and of the centre of the ring; half of the rows, rounded
    /// down, if it is not given.
    pub cy: Option<f64>,
    /// Its column, likewise.
    pub cx: Option<f64>,
    /// The radius of the disk to look at, in pixels; the rim is part of it. Infinite for all.
    pub r: f64,
    /// The radius of the disk to leave out, in pixels, rim included; none if it is not above 0.
    pub ri: f64,
    /// The angle between detector and scan in degrees; a positive angle turns shifts clockwise
    /// (as seen with y pointing down).
    pub scan_rotation: f64,
    /// Whether the y axis of the detector points up.
    pub flip_y: bool,
    /// Whether to give `raw_com` and `raw_shifts` alone, for those who compute the rest themselves.
    pub shifts_only: bool,
    /// How far (`cy`, `cx`), and the ring around it, are moved on each frame.
    pub shifts: Option<Arc<Shifts>>,
}

impl Default for Com {
    fn default() -> Self {
        Com {
            cy: None,
            cx: None,
            r: f64::INFINITY,
            ri: 0.0,
            scan_rotation: 0.0,
            flip_y: false,
            shifts_only: false,
            shifts: None,
        }
    }
}

/// The array in which raw centres travel, in double precision.
const CENTRES: &str = "centres";

/// That of a frame that there is not.
const NO_CENTRE: [f64; 2] = [f64::NAN; 2];

/// Parameters that have been checked against a data set.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    rows: usize,
    columns: usize,
    cy: f64,
    cx: f64,
}

/// The reference point of each frame of a run.
#[derive(Clone, Debug)]
struct Centres {
    fixed: [f64; 2],
    shifts: Option<Arc<Shifts>>,
    job: JobMeta,
}

impl Centres {
    /// That of the frame of this number among the selected ones.
    fn of(&self, frame: usize) -> Result<[f64; 2]> {
        let ([cy, cx], Some(shifts)) = (self.fixed, &self.shifts) else { return Ok(self.fixed) };
        match *shifts.at(self.job.position(frame))? {
            [dy, dx] => Ok([cy + dy, cx + dx]),
            ref other => Err(Error::bug(format!("a shift {other:?} of a centre of mass"))),
        }
    }

    /// Whether frames that are processed have one.
    fn check(&self, mut frames: Range<usize>) -> Result<()> {
        match self.shifts {
            None => Ok(()),
            Some(_) => frames.try_for_each(|frame| self.of(frame).map(drop)),
        }
    }
}

impl Com {
    fn centres(&self, geometry: Geometry, job: &JobMeta) -> Centres {
        let fixed = [geometry.cy, geometry.cx];
        Centres { fixed, shifts: self.shifts.clone(), job: job.clone() }
    }

    fn geometry(&self, job: &JobMeta) -> Result<Geometry> {
        check_frames(job.shape.sig(), job.input_dtype)?;
        let &[rows, columns] = job.shape.sig() else {
            return Err(Error::bug("the shape of a frame changed"));
        };
        if self.r.is_nan() || self.r < 0.0 {
            return Err(Error::invalid(format!("{} cannot be a radius", self.r))
                .with_hint("radii are in pixels, 0 or more"));
        }
        if self.ri.is_nan() || self.ri >= self.r {
            return Err(Error::invalid(format!(
                "the inner radius {} is not below the outer radius {}",
                self.ri, self.r
            ))
            .with_hint("choose ri < r"));
        }
        let cy = self.cy.unwrap_or((rows / 2) as f64);
        let cx = self.cx.unwrap_or((columns / 2) as f64);
        for (name, value) in [("cy", cy), ("cx", cx), ("scan_rotation", self.scan_rotation)] {
            if !value.is_finite() {
                return Err(Error::invalid(format!("{name} is {value}, not a finite number")));
            }
        }
        if let Some(shifts) = &self.shifts {
            shifts.check(&job.shape)?;
        }
        Ok(Geometry { rows, columns, cy, cx })
    }

    /// Takes shifts on the detector to scan coordinates.
    fn to_scan(&self) -> impl Fn([f64; 2]) -> [f64; 2] + use<> {
        let (flip_y, rotated) = (self.flip_y, self.scan_rotation != 0.0);
        let (sin, cos) = self.scan_rotation.to_radians().sin_cos();
        move |[y, x]| {
            let y = if flip_y { -y } else { y };
            if rotated { [y * cos + x * sin, x * cos - y * sin] } else { [y, x] }
        }
    }
}

fn check_frames(sig: &[usize], dtype: DType) -> Result<()> {
    if sig.len() != 2 {
        return Err(Error::unsupported(format!(
            "a centre of mass needs frames with two axes, these have shape {sig:?}"
        ))
        .with_hint("load the data with a two-dimensional signal shape"));
    }
    if dtype.is_complex() {
        return Err(Error::unsupported("complex frames have no centre of mass")
            .with_hint("use their intensity, the squared magnitude"));
    }
    Ok(())
}

impl Udf for Com {
    fn name(&self) -> &str {
        "com"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        check_frames(&source.sig_shape, source.dtype.dtype)?;
        Ok(Requirements { framewise: true, ..dense_or_sparse() })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.geometry(job)?;
        let dtype = DType::promote(job.input_dtype, DType::F32);
        let decl = |name, extra: &[usize]| {
            let decl = BufferDecl::new(name, BufferKind::Nav, dtype).with_extra_shape(extra);
            BufferDecl { usage: BufferUse::ResultOnly, ..decl }
        };
        let raw_com = BufferDecl { usage: BufferUse::Public, ..decl("raw_com", &[2]) };
        let mut buffers = vec![raw_com, decl("raw_shifts", &[2])];
        if !self.shifts_only {
            buffers.extend([
                decl("field", &[2]),
                decl("field_y", &[]),
                decl("field_x", &[]),
                decl("magnitude", &[]),
            ]);
        }
        Ok(buffers)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let geometry = self.geometry(&run.job)?;
        let shape = [geometry.rows, geometry.columns];
        let centre = [geometry.cy, geometry.cx];
        let ri = (self.ri > 0.0).then_some(self.ri);
        let follows = self.shifts.is_some() && !(self.r.is_infinite() && ri.is_none());
        Ok(dispatch_dtype!(
            real run.job.input_dtype, T => Box::new(Worker::<T> {
                shape,
                radii: (self.r, ri),
                centre,
                centres: self.centres(geometry, &run.job),
                follows,
                first: partition.frames.start,
                moments: Moments::new(Region::new(shape, centre, self.r, ri)),
                pixels: Pixels::default(),
                spans: row_spans(shape, centre, self.r, ri)?,
                bands: Bands::default(),
                columns: Columns::default(),
                sums: memory::filled(Default::default(), partition.n_frames())?,
            }),
            complex => return Err(Error::bug("a centre of mass of complex frames was planned"))
        ))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let geometry = self.geometry(&run.job)?;
        Ok(Box::new(Merged {
            com: self.clone(),
            centres_of_frames: self.centres(geometry, &run.job),
            dtype: DType::promote(run.job.input_dtype, DType::F32),
            centres: NavRows::new(CENTRES, DType::F64, run, &[2])?,
        }))
    }
}

struct Worker<T: Mass> {
    shape: [usize; 2],
    /// The outer radius of the region to look at, and the inner one.
    radii: (f64, Option<f64>),
    /// Where its centre is now.
    centre: [f64; 2],
    centres: Centres,
    /// Whether the region is another one for each frame.
    follows: bool,
    /// The number of the partition's first frame.
    first: usize,
    /// What to look at in sparse tiles.
    moments: Moments,
    pixels: Pixels,
    /// The same for dense tiles.
    spans: Vec<RowSpans>,
    bands: Bands,
    columns: Columns<T::Sum>,
    sums: Vec<FrameSums<<T::Sum as ColumnSum>::Moment>>,
}

/// What to look at in tiles of one slice.
#[derive(Default)]
struct Bands {
    /// The number of the slice.
    slice: Option<usize>,
    bands: Vec<Band>,
}

impl Bands {
    /// Those of a slice, cut anew if it is another one than before.
    fn of(&mut self, slice: &SigSlice, spans: &[RowSpans]) -> Result<&[Band]> {
        let (&[first_row, first_column], &[n_rows, n_columns]) = (slice.origin(), slice.shape())
        else {
            return Err(Error::bug(format!("a slice {slice:?} of a frame with two axes")));
        };
        if self.slice != Some(slice.index()) {
            let columns = first_column..first_column + n_columns;
            self.slice = None;
            self.bands.clear();
            let bands = spans[first_row..first_row + n_rows].chunks(BAND_ROWS).enumerate();
            for (band, spans) in bands {
                let rectangles = rectangles(spans, &columns)?;
                let n_pixels: usize = rectangles.iter().map(Rectangle::n_pixels).sum();
                let band = Band {
                    first_row: first_row + band * BAND_ROWS,
                    is_whole: n_pixels == spans.len() * n_columns,
                    rectangles,
                };
                memory::push(&mut self.bands, band)?;
            }
            self.slice = Some(slice.index());
        }
        Ok(&self.bands)
    }
}

impl<T: Mass> Worker<T> {
    /// Looks at the region around the reference point of the frame of this number.
    fn follow(&mut self, frame: usize) -> Result<()> {
        let centre = self.centres.of(frame)?;
        if centre != self.centre {
            let (r, ri) = self.radii;
            self.spans = row_spans(self.shape, centre, r, ri)?;
            self.moments.set_region(Region::new(self.shape, centre, r, ri));
            self.bands = Bands::default();
            self.centre = centre;
        }
        Ok(())
    }

    /// Adds the part of some frames that lies in a slice; `which` of the partition they are.
    fn add(
        &mut self,
        frames: FramesView<'_, T>,
        slice: &SigSlice,
        which: Range<usize>,
    ) -> Result<()> {
        let bands = self.bands.of(slice, &self.spans)?;
        let (width, first_column) = (slice.shape()[1], slice.origin()[1]);
        let sums = &mut self.sums[which];
        if let [Band { first_row, is_whole: true, .. }] = *bands
            && small::are_small::<T>(slice.shape()[0], width)
        {
            let first = [first_row, first_column];
            run!(
                Simd::best(),
                for (i, sums) in sums.iter_mut().enumerate() {
                    let ahead = if i + 1 < frames.depth() { frames.frame(i + 1) } else { &[] };
                    sums.add(small::add_up(frames.frame(i), ahead, width, first));
                }
            );
            return Ok(());
        }
        self.columns.make_room(width)?;
        run!(
            Simd::best(),
            for (sums, frame) in sums.iter_mut().zip(frames.frames()) {
                let rows = frame.chunks(BAND_ROWS * width);
                for (band, cells) in bands.iter().zip(rows) {
                    sums.add(self.columns.add_band(band, cells, width, first_column));
                }
            }
        );
        Ok(())
    }
}

impl<T: Mass> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        let TilePosition { sig, in_partition, frames: numbers } = &tile.position;
        if !self.follows {
            self.centres.check(numbers.clone())?;
            return self.add(frames, sig, in_partition.clone());
        }
        for (i, number) in numbers.clone().enumerate() {
            self.follow(number)?;
            let cells = frames.frame(i);
            let frame = FramesView::try_new(cells, 1, cells.len(), cells.len())?;
            let place = in_partition.start + i;
            self.add(frame, sig, place..place + 1)?;
        }
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        // Entries borrow what the region is no part of.
        let mut pixels = std::mem::take(&mut self.pixels);
        let entries = pixels.entries::<T>(tile, position.sig, &self.shape)?;
        let which = position.in_partition.clone();
        if self.follows {
            for (i, number) in position.frames.clone().enumerate() {
                self.follow(number)?;
                let (columns, values) = entries.frames(i..i + 1);
                let starts = [0, columns.len()];
                let entries = Entries::new(&starts, columns, values);
                let place = which.start + i;
                let sums = &mut self.sums[place..place + 1];
                self.moments.add_tile(Simd::best(), entries, sums)?;
            }
        } else {
            self.centres.check(position.frames.clone())?;
            self.moments.add_tile(Simd::best(), entries, &mut self.sums[which])?;
        }
        self.pixels = pixels;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let mut centres = memory::with_room(self.sums.len())?;
        for (frame, sums) in (self.first..).zip(&self.sums) {
            let of = |sum: &<T::Sum as ColumnSum>::Moment| sum.over(sums.plain);
            centres.push(match (of(&sums.by_row), of(&sums.by_column)) {
                (Some(y), Some(x)) => [y, x],
                // Frames that never came need none, and others were looked at.
                _ => self.centres.of(frame).unwrap_or(NO_CENTRE),
            });
        }
        let centres = centres.into_flattened();
        Ok(Partial::new().with(CENTRES, NativeArray::try_new(&[self.sums.len(), 2], centres)?))
    }
}

struct Merged {
    com: Com,
    centres_of_frames: Centres,
    dtype: DType,
    centres: NavRows,
}

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        self.centres.put(partition, &mut partial)
    }

    fn results(&self) -> Result<Vec<Array>> {
        match self.dtype {
            DType::F32 => self.centres.look(|centres| self.results_in(centres, |v| v as f32)),
            DType::F64 => self.centres.look(|centres| self.results_in(centres, |v| v)),
            other => Err(Error::bug(format!("centres of mass of {other} were planned"))),
        }
    }
}

impl Merged {
    /// The results, each number rounded once. For millions of frames, the memory they take counts:
    /// so each is made in one go from the centres.
    fn results_in<T>(
        &self,
        centres: &NativeArray,
        round: impl Fn(f64) -> T + Copy,
    ) -> Result<Vec<Array>>
    where
        T: Copy,
        Vec<T>: Into<TypedVec>,
    {
        let (centres, _) = centres.as_slice::<f64>()?.as_chunks::<2>();
        let fixed = self.centres_of_frames.fixed;
        let mut moved = Vec::new();
        if self.com.shifts.is_some() {
            memory::make_room(&mut moved, centres.len())?;
            for (frame, &[y, x]) in centres.iter().enumerate() {
                // Positions that are not processed need none.
                let is_missing = y.is_nan() && x.is_nan();
                let of_frame = || self.centres_of_frames.of(frame);
                moved.push(if is_missing { NO_CENTRE } else { of_frame()? });
            }
        }
        let to_scan = self.com.to_scan();
        let shift = |i: usize, &[y, x]: &[f64; 2]| {
            let [cy, cx] = moved.get(i).copied().unwrap_or(fixed);
            [y - cy, x - cx]
        };
        let field = |i: usize, centre: &[f64; 2]| to_scan(shift(i, centre));
        let vectors = |vector: &dyn Fn(usize, &[f64; 2]) -> [f64; 2]| {
            let all = centres.iter().enumerate().map(|(i, c)| vector(i, c).map(round));
            let vectors = memory::collected(all)?;
            NativeArray::try_new(&[centres.len(), 2], vectors.into_flattened()).map(Array::from)
        };
        let numbers = |number: &dyn Fn(usize, &[f64; 2]) -> f64| {
            let all = centres.iter().enumerate().map(|(i, c)| round(number(i, c)));
            NativeArray::try_new(&[centres.len()], memory::collected(all)?).map(Array::from)
        };
        let mut results = vec![vectors(&|_, centre| *centre)?, vectors(&shift)?];
        if !self.com.shifts_only {
            results.extend([
                vectors(&field)?,
                numbers(&|i, centre| field(i, centre)[0])?,
                numbers(&|i, centre| field(i, centre)[1])?,
                numbers(&|i, centre| {
                    let [y, x] = field(i, centre);
                    y.hypot(x)
                })?,
            ]);
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_are_flipped_before_they_are_rotated() {
        let com = |scan_rotation, flip_y| Com { scan_rotation, flip_y, ..Com::default() };
        let close = |found: [f64; 2], expected: [f64; 2]| {
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?}");
        };
        close(com(0.0, false).to_scan()([1.0, 2.0]), [1.0, 2.0]);
        close(com(30.0, false).to_scan()([1.0, 2.0]), [1.8660254037844386, 1.2320508075688774]);
        close(com(0.0, true).to_scan()([1.0, 2.0]), [-1.0, 2.0]);
        close(com(30.0, true).to_scan()([1.0, 2.0]), [0.13397459621556118, 2.232050807568877]);
    }
}

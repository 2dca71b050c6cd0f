//! Products of each frame with a stack of masks.

mod columns;
mod entries;
mod few;
pub(crate) mod geometry;
mod given;
mod lanes;
mod many;
mod moved;
mod number;
mod product;
mod rows;
mod shifted;
mod sparse;
mod stack;

pub use geometry::{disk, ring};
pub use shifted::{FrameCells, ShiftedMasks};

use crate::dispatch::dispatch_dtype;
use crate::entries::{Pixels, dense_or_sparse};
use crate::nav::NavRows;
use crate::row::{DefaultValue, Parameter, ParameterKind, Reduction};
use crate::shifts::Shifts;
use crate::total::convert;
use framefold_core::{
    Accumulator, BufferDecl, BufferKind, Complex128, CsrTile, DType, Error, JobMeta, Merger,
    Method, NativeArray, Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile,
    TilePosition, TilingScheme, Udf, memory,
};
use framefold_simd::Simd;
use moved::Movable;
use product::Product;
use rows::{Pixel, rows_per_frame};
use shifted::Mover;
use stack::{MaskStack, Weights};
use std::sync::Arc;

pub(super) const ROW: Reduction = Reduction::new(
    "masks",
    "virtual detectors: the weighted sum of each frame under masks",
    &[INTENSITY],
    |parameters, sig_shape| Ok(Arc::new(Masks::from_parameters(parameters, sig_shape)?)),
)
.with_example(&[("disk", "2"), ("ring", "1,1,0,2")])
.with_parameters(&[
    Parameter::new(
        "disk",
        ParameterKind::Disks,
        DefaultValue::OneOfThese,
        "a disk: its radius, or centre and radius CY,CX,R; may be repeated",
    )
    .with_unit("px"),
    Parameter::new(
        "ring",
        ParameterKind::Rings,
        DefaultValue::OneOfThese,
        "a ring: its inner and outer radius, or centre and radii CY,CX,RI,RO; may be repeated, comes \
         after disks",
    )
    .with_unit("px"),
    Parameter::new(
        "masks",
        ParameterKind::Arrays,
        DefaultValue::OneOfThese,
        "an array of masks, of shape (masks, frame axes) or of a frame's shape; may be repeated, \
         comes after disks and rings",
    ),
    Parameter::new(
        "starts",
        ParameterKind::Counts,
        DefaultValue::Nothing,
        "where the values of each sparse mask begin in an array of all, and where the last ones end",
    )
    .without_option(),
    Parameter::new(
        "pixels",
        ParameterKind::Counts,
        DefaultValue::Nothing,
        "the pixel of the flattened frame for each value of sparse masks",
    )
    .without_option(),
    Parameter::new(
        "sig_shape",
        ParameterKind::Counts,
        DefaultValue::Nothing,
        "the shape of the masks, for one array of all of them",
    )
    .without_option(),
    Parameter::new(
        "shifts",
        ParameterKind::Array,
        DefaultValue::Nothing,
        "how far the masks are moved: an array of (dy, dx), of shape (2) for all frames, or \
         (positions, 2) or (scan axes, 2) for each position of the scan; fractions are interpolated",
    )
    .with_unit("px"),
]);

/// Multiplies each selected frame with each mask of a stack and sums the products: the buffer
/// `intensity` (nav, extra shape `(n_masks,)`).
///
/// The result has the common dtype of the data, float32 and the masks. If that is single
/// precision, up to 256 products are summed in it before they are added to a total of double
/// precision: before it is rounded to the result, such a total is off by at most `2^-16` times the
/// sum of the magnitudes of its products. Integer data and masks of integers are summed exactly,
/// up to 2^53.
#[derive(Clone, Debug)]
pub struct Masks {
    stack: Arc<MaskStack>,
    shifts: Option<Arc<Shifts>>,
}

/// So many frames share one reading of a part of the masks from memory.
const TILE_DEPTH: usize = 64;

/// The same if masks are moved, which takes whole frames, and the most memory for them.
const SHIFTED_DEPTH: usize = 24;
const SHIFTED_BYTES: usize = 32 << 20;

const INTENSITY: &str = "intensity";

impl Masks {
    /// Applies a dense stack of masks: `masks` has shape `(n, *sig_shape)` and any dtype.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no mask, or `masks` has fewer than two axes.
    pub fn try_new(masks: NativeArray) -> Result<Self> {
        Ok(Masks { stack: Arc::new(MaskStack::try_new(masks)?), shifts: None })
    }

    /// Applies a sparse stack of masks, given as compressed rows: the values of mask `m` are
    /// those from `starts[m]` to `starts[m + 1]`, and `pixels` says where in the flattened
    /// frame each one lies, in rising order for each mask.
    ///
    /// What is not stored is not multiplied: NaN or infinity at such a pixel does not matter,
    /// whereas times the zero of a dense mask it makes the product NaN. Sums run in double
    /// precision.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no mask, the parts do not fit together, or a pixel does not
    /// lie within the frame.
    pub fn try_new_sparse(
        sig_shape: &[usize],
        starts: &[usize],
        pixels: &[usize],
        values: NativeArray,
    ) -> Result<Self> {
        let stack = MaskStack::try_new_sparse(sig_shape, starts, pixels, values)?;
        Ok(Masks { stack: Arc::new(stack), shifts: None })
    }

    /// The same masks, moved by `shifts`: cell `i` of a mask lies on pixel `i + shift` of the
    /// frame, and what lies outside of the frame does not count. Fractions of a pixel move a mask
    /// by linear interpolation along each axis, with zeros around it.
    #[must_use]
    pub fn with_shifts(self, shifts: Shifts) -> Self {
        Masks { shifts: Some(Arc::new(shifts)), ..self }
    }

    /// The number of masks.
    pub fn n_masks(&self) -> usize {
        self.stack.n_masks()
    }

    fn check_shape(&self, sig_shape: &[usize]) -> Result<()> {
        let found = self.stack.sig_shape();
        if found == sig_shape {
            return Ok(());
        }
        let stack = |n_masks: usize| {
            let lengths = [n_masks].into_iter().chain(sig_shape.iter().copied());
            lengths.map(|length| length.to_string()).collect::<Vec<_>>().join(", ")
        };
        let is_one = sig_shape.split_first() == Some((&self.n_masks(), found));
        Err(Error::invalid(format!(
            "masks of shape {found:?} do not fit frames of shape {sig_shape:?}"
        ))
        .with_hint(if is_one {
            format!(
                "for a single mask, give a list with one factory, or a stack of shape ({})",
                stack(1)
            )
        } else {
            format!("make a stack of shape ({})", stack(self.n_masks()))
        }))
    }

    fn result_dtype(&self, job: &JobMeta) -> DType {
        DType::promote(DType::promote(job.input_dtype, DType::F32), self.stack.dtype())
    }
}

impl Udf for Masks {
    fn name(&self) -> &str {
        "masks"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        self.check_shape(&source.sig_shape)?;
        // One mask stays in the cache by itself; of more, parts do that frames share.
        let dense = !matches!(self.stack.weights(), Weights::Sparse(_));
        let tile_depth = (self.n_masks() > 1 && dense).then_some(TILE_DEPTH);
        let requirements = match self.stack.are_finite() {
            true => dense_or_sparse(),
            // Every pixel counts then, even if it is zero.
            false => Requirements::native_tiles(),
        };
        let requirements =
            Requirements { tile_depth, framewise: true, by_rows: true, ..requirements };
        Ok(match self.shifts {
            None => requirements,
            Some(_) => Requirements {
                method: Method::Frame,
                tile_depth: Some(SHIFTED_DEPTH),
                tile_bytes: Some(SHIFTED_BYTES),
                ..requirements
            },
        })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.check_shape(job.shape.sig())?;
        if let Some(shifts) = &self.shifts {
            shifts.check(&job.shape)?;
        }
        Ok(vec![
            BufferDecl::new(INTENSITY, BufferKind::Nav, self.result_dtype(job))
                .with_extra_shape(&[self.n_masks()]),
        ])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.check_shape(run.job.shape.sig())?;
        partition
            .n_frames()
            .checked_mul(4 * self.n_masks().next_multiple_of(16))
            .ok_or_else(|| Error::limit("the products of a partition do not fit in memory"))?;
        let dtype = self.result_dtype(&run.job);
        let (stack, tiling) = (Arc::clone(&self.stack), Arc::clone(&run.tiling));
        let simd = Simd::best();
        Ok(dispatch_dtype!(run.job.input_dtype, T => {
            let product = Product::try_new::<T>(simd, &stack, partition.n_frames())?;
            let pixels = Pixels::default();
            let moving = self.shifts.as_ref().map(|shifts| Moving::<T> {
                shifts: Arc::clone(shifts),
                job: run.job.clone(),
                mover: Mover::default(),
            });
            Box::new(Worker::<T> { stack, tiling, pixels, product, dtype, moving })
        }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let dtype = self.result_dtype(&run.job);
        Ok(Box::new(NavRows::new(INTENSITY, dtype, run, &[self.n_masks()])?))
    }
}

struct Worker<T: Movable> {
    stack: Arc<MaskStack>,
    tiling: Arc<TilingScheme>,
    pixels: Pixels,
    product: Product,
    dtype: DType,
    moving: Option<Moving<T>>,
}

/// What it takes to move masks.
struct Moving<T: Movable> {
    shifts: Arc<Shifts>,
    job: JobMeta,
    mover: Mover<T>,
}

impl<T: Movable> Moving<T> {
    /// Knows the shifts of the frames of a tile.
    fn set(&mut self, position: &TilePosition<'_>) -> Result<&mut Mover<T>> {
        let Moving { shifts, job, mover } = self;
        mover.set_shifts(position.frames.clone().map(|frame| shifts.at(job.position(frame))))?;
        Ok(mover)
    }
}

impl<T: Movable> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        let first = tile.position.in_partition.start;
        if let Some(moving) = &mut self.moving {
            if frames.frame_len() != self.tiling.sig_shape().iter().product() {
                return Err(Error::bug("masks are moved on parts of frames"));
            }
            let mover = moving.set(&tile.position)?;
            return mover.add(&mut self.product, frames, first, &self.stack);
        }
        let mut start = 0;
        for run in tile.position.sig.runs(self.tiling.sig_shape()) {
            let cells = start..start + run.len();
            start = cells.end;
            self.product.add(frames, first, cells, &self.stack, run);
        }
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let sig_shape = self.tiling.sig_shape();
        let entries = self.pixels.entries::<T>(tile, position.sig, sig_shape)?;
        let first = position.in_partition.start;
        match &mut self.moving {
            None => self.product.add_entries(entries, first, &self.stack),
            Some(moving) => {
                let mover = moving.set(position)?;
                mover.add_entries(&mut self.product, entries, first, &self.stack)
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let n_masks = self.stack.n_masks();
        let values = combined::<T>(&self.product, &self.stack)?;
        let shape = [values.len() / n_masks, n_masks];
        let cells = convert(&values, self.dtype)?;
        Ok(Partial::new().with(INTENSITY, NativeArray::try_new(&shape, cells)?))
    }
}

/// The products of each frame with each mask, from those of their real and imaginary parts.
///
/// # Errors
/// `Limit` if there is no memory for them.
fn combined<T: Pixel>(product: &Product, stack: &MaskStack) -> Result<Vec<Complex128>> {
    let n_masks = stack.n_masks();
    let (totals, n_products) = product.totals();
    let complex_masks = stack.dtype().is_complex();
    let frames = totals.chunks_exact(n_products * rows_per_frame::<T>());
    let mut products = memory::with_room(frames.len().saturating_mul(n_masks))?;
    for frame in frames {
        let (re, im) = frame.split_at(n_products);
        products.extend((0..n_masks).map(|m| {
            // The product of the frame's part `row` with the mask's part `part`.
            let of = |row: &[f64], part: usize| {
                let exists = part == 0 || complex_masks;
                row.get(part * n_masks + m).filter(|_| exists).copied().unwrap_or(0.0)
            };
            Complex128::new(of(re, 0) - of(im, 1), of(re, 1) + of(im, 0))
        }));
    }
    Ok(products)
}

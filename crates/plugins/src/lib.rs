//! Runs functions that others compiled: tables of C functions, as `framefold-abi` has them.
//!
//! A [`Table`] is checked when it is made. [`PluginUdf`] makes an engine's [`framefold_core::Udf`] of it;
//! [`PluginAccumulator`] is its worker, which can also be used without the rest where something else plans
//! and merges. The table decides nothing about memory: buffers are the engine's, and what a function sees of
//! them are views.
//!
//! Rust programs need no table: [`udf`] takes whatever implements [`Function`].
//!
//! Every call comes back with a status, and what is not 0 becomes an error that names the function and says
//! what it said. A table that lies about its pointers cannot be held back by anything but a process of its
//! own.

mod accumulator;
mod buffers;
mod call;
mod dtype;
mod job;
mod merger;
mod table;
mod udf;

pub use framefold_abi as abi;
pub use framefold_abi::Function;

pub use accumulator::{Explain, FailedFrame, FailedTile, PluginAccumulator};
pub use table::Table;
pub use udf::PluginUdf;

use framefold_core::{Result, Udf};
use std::sync::Arc;

/// A function as the engine runs it, beside others.
///
/// ```
/// use framefold_plugins::abi::{Buffer, Failure, Function, Job, Tile, Views};
/// use framefold_core::{Dataset, NativeArray};
/// use framefold_testkit::{MemoryOptions, MemorySource, cut, evaluate};
/// # use framefold_core::TilingScheme;
/// # use std::sync::Arc;
///
/// /// The number of cells above a threshold, of each frame and at each place.
/// struct Above(u16);
///
/// impl Function for Above {
///     type Task = ();
///
///     fn name(&self) -> &str {
///         "above"
///     }
///
///     fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
///         Ok(vec![Buffer::nav::<u32>("counts"), Buffer::sig::<u32>("image")])
///     }
///
///     fn process(
///         &self,
///         _task: &mut (),
///         tile: &Tile<'_>,
///         views: &mut Views<'_>,
///     ) -> Result<(), Failure> {
///         let [counts, image] = views.take()?;
///         let (mut counts, mut image) = (counts.of::<u32>()?, image.of::<u32>()?);
///         let (counts, image) = (counts.as_mut_slice()?, image.as_mut_slice()?);
///         for (count, frame) in counts.iter_mut().zip(tile.frames::<u16>()?) {
///             for (cell, &value) in image.iter_mut().zip(frame) {
///                 let is_above = u32::from(value > self.0);
///                 *count += is_above;
///                 *cell += is_above;
///             }
///         }
///         Ok(())
///     }
///
///     fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
///         let (new_counts, new_image) = (src.read::<u32>(0)?, src.read::<u32>(1)?);
///         let [counts, image] = dest.take()?;
///         counts.of::<u32>()?.as_mut_slice()?.copy_from_slice(new_counts);
///         let mut image = image.of::<u32>()?;
///         image.as_mut_slice()?.iter_mut().zip(new_image).for_each(|(sum, new)| *sum += new);
///         Ok(())
///     }
/// }
///
/// let above = framefold_plugins::udf(Above(9))?;
/// # let frames = NativeArray::try_new(&[4, 2, 2], (0..16u16).collect::<Vec<_>>())?;
/// # let source = MemorySource::try_new(frames, MemoryOptions::default())?;
/// # let dataset = Dataset::try_new(Arc::new(source), None, 0)?;
/// # let tiling = Arc::new(TilingScheme::try_new(&[2, 2], &[2, 2], 3)?);
/// // Of frames of 0 to 3, 4 to 7, 8 to 11 and 12 to 15:
/// let results = evaluate(above.as_ref(), &dataset, None, &tiling, &cut(&[0..4], &[2]))?;
/// assert_eq!(results.get("counts")?.as_slice::<u32>()?, [0, 0, 2, 4]);
/// assert_eq!(results.get("image")?.as_slice::<u32>()?, [1, 1, 2, 2]);
/// # Ok::<(), framefold_core::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument` if it has no name.
pub fn udf(function: impl Function) -> Result<Arc<dyn Udf>> {
    let owner = Arc::new(abi::Table::of(function));
    let raw = &raw const *owner.as_raw();
    // SAFETY: the table was made by `framefold-abi`, for functions in safe Rust, and ends with `owner`.
    let table = unsafe { Table::try_new(raw, owner) }?;
    Ok(Arc::new(PluginUdf::new(Arc::new(table))))
}

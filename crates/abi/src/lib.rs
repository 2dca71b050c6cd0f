//! The C interface through which framefold runs functions that others compiled.
//!
//! Implement [`Function`], and make a [`Table`] of it: a `ff_udf_v1` as `include/framefold.h` has it, whose
//! functions catch panics and pass on what failed in words. In a Python extension, an object returns the
//! table in a capsule ([`raw::CAPSULE`]) from its method [`raw::METHOD`]; Rust programs give the function to
//! `framefold::plugins::udf`.
//!
//! ```
//! use framefold_abi::{Buffer, Failure, Function, Job, Table, Tile, Views};
//!
//! /// The sum of each frame of counts.
//! struct Sums;
//!
//! impl Function for Sums {
//!     type Task = ();
//!
//!     fn name(&self) -> &str {
//!         "sums"
//!     }
//!
//!     fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
//!         Ok(vec![Buffer::nav::<u64>("intensity")])
//!     }
//!
//!     fn process(
//!         &self,
//!         _task: &mut (),
//!         tile: &Tile<'_>,
//!         views: &mut Views<'_>,
//!     ) -> Result<(), Failure> {
//!         let [intensity] = views.take()?;
//!         let mut intensity = intensity.of::<u64>()?;
//!         for (sum, frame) in intensity.as_mut_slice()?.iter_mut().zip(tile.frames::<u16>()?) {
//!             *sum += frame.iter().map(|&count| u64::from(count)).sum::<u64>();
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let table = Table::of(Sums);
//! assert_eq!(table.as_raw().major, framefold_abi::raw::MAJOR);
//! ```
//!
//! [`raw`] has the structs of the header. Nothing here needs another crate, and its versions are its own: a
//! plug-in that was compiled against version 1.0 works with every later host of major version 1.

mod dtype;
mod function;
mod panics;
pub mod raw;
mod table;
mod tile;
mod views;

pub use dtype::{Bool, Complex, DType, Element, Half};
pub use function::{Buffer, Failure, Format, Formats, Function, Job, Method, Requirements, Run};
pub use table::Table;
pub use tile::{Frames, Rows, Tile};
pub use views::{AnyView, View, Views};

//! The reductions, one file each, and the table of them.

mod com;
mod logsum;
pub(crate) mod masks;
mod max;
mod pick;
mod stddev;
mod sum;
mod sum_sig;

pub use com::Com;
pub use logsum::LogSum;
pub use masks::{FrameCells, Masks, ShiftedMasks, disk, ring};
pub use max::Max;
pub use pick::Pick;
pub use stddev::StdDev;
pub use sum::Sum;
pub use sum_sig::SumSig;

use crate::row::Reduction;
use framefold_core::{Error, Result};

/// All native reductions, in the order in which they are listed: simple ones first.
///
/// The command line, the Python package, the reference page of the guide and the contract suite go
/// through this table: a reduction that is in it is in all of them.
pub const REDUCTIONS: &[Reduction] =
    &[sum::ROW, sum_sig::ROW, max::ROW, stddev::ROW, com::ROW, masks::ROW, logsum::ROW, pick::ROW];

/// The reduction of this name.
///
/// # Errors
/// `InvalidArgument` if there is none.
pub fn reduction(name: &str) -> Result<&'static Reduction> {
    REDUCTIONS.iter().find(|row| row.name == name).ok_or_else(|| {
        let names: Vec<&str> = REDUCTIONS.iter().map(|row| row.name).collect();
        Error::invalid(format!("there is no reduction '{name}'"))
            .with_hint(format!("choose one of {}", names.join(", ")))
    })
}

//! Pages of one kind make a series; which of several series of a file is meant.

use super::ifd::{self, Directory, tag};
use super::page;
use crate::access::Storage;
use framefold_core::{Error, Result};
use std::fmt;

/// More kinds of pages than any program writes.
const MOST_KINDS: usize = 64;

/// What pages of a series have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    height: u64,
    width: u64,
    samples: u64,
    bits: u64,
    format: u64,
    planar: u64,
    /// Whether its compression is known: previews are often JPEG.
    readable: bool,
}

impl Kind {
    /// That of a page; `None` if it shows another one in small, or does not say how large it is.
    pub(super) fn of(directory: &Directory<'_>) -> Option<Kind> {
        let number = |tag: u16| directory.number(tag).ok().flatten();
        if number(tag::SUBFILE_TYPE).is_some_and(|kind| kind & 1 == 1) {
            return None;
        }
        Some(Kind {
            height: number(tag::HEIGHT)?,
            width: number(tag::WIDTH)?,
            samples: number(tag::SAMPLES).unwrap_or(1),
            bits: number(tag::BITS).unwrap_or(1),
            format: number(tag::SAMPLE_FORMAT).unwrap_or(1),
            planar: number(tag::PLANAR).unwrap_or(1),
            readable: page::is_known(number(tag::COMPRESSION).unwrap_or(1)),
        })
    }

    fn bits_of_page(&self) -> u128 {
        let sizes = [self.height, self.width, self.samples, self.bits];
        sizes.into_iter().fold(1, |product: u128, n| product.saturating_mul(u128::from(n)))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.height, self.width)?;
        if self.samples > 1 {
            write!(f, " in {} colours", self.samples)?;
        }
        write!(f, " of {} bits", self.bits)?;
        if self.readable { Ok(()) } else { write!(f, ", in a compression that is not known") }
    }
}

/// The series of a file that is meant, and a word about the others.
///
/// # Errors
/// `InvalidArgument` if there is none of the number that is wanted; those of walking through the
/// file.
pub(super) fn choose(
    storage: &Storage,
    wanted: Option<usize>,
) -> Result<(Option<Kind>, Option<String>)> {
    let mut all: Vec<(Kind, u128)> = Vec::new();
    ifd::walk(storage, |directory| {
        if let Some(kind) = Kind::of(directory) {
            if let Some((_, n_pages)) = all.iter_mut().find(|(known, _)| *known == kind) {
                *n_pages += 1;
            } else if all.len() < MOST_KINDS {
                all.push((kind, 1));
            }
        }
        Ok(())
    })?;
    let shown = || -> String {
        let numbered = all.iter().enumerate();
        let shown = numbered.map(|(number, (kind, n))| format!("{number}: {n} pages {kind}"));
        shown.collect::<Vec<_>>().join("; ")
    };
    let number = match wanted {
        Some(number) if number < all.len() => number,
        Some(number) => {
            return Err(Error::invalid(format!("there is no series {number} of pages"))
                .with_hint(format!("there are {}", shown())));
        }
        None => {
            let size =
                |(kind, n): &(Kind, u128)| (kind.readable, n.saturating_mul(kind.bits_of_page()));
            // The first one, where several are as large.
            match all.iter().enumerate().rev().max_by_key(|(_, series)| size(series)) {
                Some((number, _)) => number,
                None => return Ok((None, None)),
            }
        }
    };
    let others = (all.len() > 1).then(|| {
        format!(
            "the file has pages of several kinds ({}): this is series {number}; dataset_index \
             chooses another one",
            shown()
        )
    });
    Ok((all.get(number).map(|(kind, _)| *kind), others))
}

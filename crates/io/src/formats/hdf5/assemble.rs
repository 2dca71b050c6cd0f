//! From data sets to the pieces of a composed source.
//!
//! Signal axes of a virtual data set are matched with those of a source from the last one on, and
//! what is left of the source's axes counts its frames; so sources may lack axes of length 1, or
//! flatten the scan. Sources that are not there leave positions without data, where no other one
//! has something of that frame.

use super::FORMAT;
use super::array::{Array, Place};
use super::converted::{self, Converted, Pair};
use super::frames::Frames;
use super::library::{Library, Unreachable};
use super::virtual_set::{Member, VirtualSet};
use crate::readers::composed::{Blocks, ComposedSource, ComposedSpec, Piece};
use crate::readers::linear::{normalise_in_place, swap_in_place};
use framefold_core::{DataSource, Error, Presence, Result, SourceInfo, StoredDType};
use std::collections::HashMap;
use std::sync::Arc;

/// Boxes that one virtual data set may be cut into.
const MOST_PIECES: usize = 1 << 20;
/// Names of missing sources that a warning lists.
const MOST_NAMED: usize = 8;

/// The source of these frames: as they lie in the file, or put together.
///
/// # Errors
/// `BadFile` or `Unsupported` if pixels are not where they should be.
pub(super) fn source(library: &Library, frames: Frames) -> Result<Arc<dyn DataSource>> {
    let in_order = frames.nav_axes.iter().chain(&frames.sig_axes).is_sorted();
    let is_run = |array: &Array| matches!(array.pixels, Place::Run { .. });
    let is_virtual = |array: &Array| matches!(array.pixels, Place::Virtual(_));
    let n_runs = frames.arrays.iter().filter(|array| is_run(array)).count();
    let all = frames.arrays.len();
    match (n_runs == all, in_order) {
        _ if frames.arrays.iter().any(is_virtual) => assembled(library, frames),
        (true, true) => frames.linear(),
        (true, false) if all == 1 => frames.strided(),
        (false, _) if n_runs == 0 => frames.chunked(),
        _ => assembled(library, frames),
    }
}

/// Frames in which something has to be put together.
fn assembled(library: &Library, mut frames: Frames) -> Result<Arc<dyn DataSource>> {
    let Some(first) = frames.arrays.first() else {
        return Err(Error::bug("frames without an array"));
    };
    let own = first.dtype;
    let shown_as = frames.shown_as.unwrap_or(own);
    let dtype = StoredDType::native(shown_as.dtype);
    let mut fill = first.fill.clone();
    swap_in_place(own, &mut fill);
    normalise_in_place(own, &mut fill);
    let fill = converted::element(Pair { from: own, to: shown_as }, &fill)?;
    let whole: Vec<(usize, usize)> = (0..frames.sig_shape.len()).map(|axis| (axis, 0)).collect();
    let mut assembly = Assembly::default();
    let mut nav_shape = vec![frames.frames.last().map_or(0, |frames| frames.end)];
    let arrays = std::mem::take(&mut frames.arrays);
    let in_order = frames.nav_axes.iter().chain(&frames.sig_axes).is_sorted();
    let fills_frames = match <[Array; 1]>::try_from(arrays) {
        Ok([array]) => {
            let Place::Virtual(set) = &array.pixels else {
                return Err(Error::bug("one array needs nothing to be put together"));
            };
            if !in_order {
                return Err(array.owner.locate(Error::unsupported(
                    "the data set is virtual, and its frames are not on its last axes",
                )));
            }
            let n_nav = frames.nav_axes.len();
            let _guard = library.enter(&array.owner, array.address)?;
            assembly.virtual_set(library, &array, set, n_nav, shown_as)?;
            nav_shape = set.shape.get(..n_nav).map(<[u64]>::to_vec).unwrap_or_default();
            true
        }
        Err(arrays) => {
            for (array, range) in arrays.into_iter().zip(frames.frames.clone()) {
                let n = range.end - range.start;
                let source = source(library, Frames::of_one(array, frames.sig_axes.clone())?)?;
                assembly.sources.push(source);
                assembly.pieces.push(Piece {
                    source: Some(assembly.sources.len() - 1),
                    shown: vec![Blocks::one(range)],
                    taken: vec![Blocks::one(0..n)],
                    taken_shape: vec![n],
                    origin: vec![0; frames.sig_shape.len()],
                    shape: frames.sig_shape.clone(),
                    axes: whole.clone(),
                });
            }
            false
        }
    };
    let mut paths: Vec<_> =
        assembly.sources.iter().flat_map(|source| source.info().paths.clone()).collect();
    paths.dedup();
    let mut warnings = frames.warnings;
    warnings.extend(assembly.sources.iter().flat_map(|source| source.info().warnings.clone()));
    warnings.extend(assembly.missing());
    if assembly.sources.is_empty() && !assembly.missing.is_empty() {
        return Err(Error::bad_file(warnings.join("; "))
            .with_hint("copy all files of the set into one folder"));
    }
    let info = SourceInfo {
        format: FORMAT.name,
        paths,
        n_frames: frames.frames.last().map_or(0, |frames| frames.end),
        presence: Presence::All,
        base_shape: frames.sig_shape.clone(),
        sig_shape: frames.sig_shape,
        nav_shape: frames.nav_shape,
        dtype,
        preferred_depth: 1,
        lends: false,
        metadata: frames.metadata,
        details: frames.details,
        warnings,
    };
    Ok(Arc::new(ComposedSource::try_new(ComposedSpec {
        info,
        sources: assembly.sources,
        pieces: assembly.pieces,
        fill,
        nav_shape,
        fills_frames,
    })?))
}

#[derive(Default)]
struct Assembly {
    sources: Vec<Arc<dyn DataSource>>,
    pieces: Vec<Piece>,
    /// By file and data set; `None` if it is not there.
    opened: HashMap<(String, String), Option<Known>>,
    missing: Vec<String>,
}

/// A data set that something is taken of.
struct Known {
    shape: Vec<u64>,
    /// Until it becomes a source.
    array: Option<Array>,
    /// By the number of signal axes: the number of the source.
    sources: Vec<(usize, usize)>,
}

impl Assembly {
    fn virtual_set(
        &mut self,
        library: &Library,
        owner: &Array,
        set: &VirtualSet,
        n_nav: usize,
        dtype: StoredDType,
    ) -> Result<()> {
        for member in &set.members {
            let located = |error: Error| owner.owner.locate(error);
            let shown = member.shown.of(&set.shape).map_err(located)?;
            let key = (member.file.clone(), member.dataset.clone());
            if !self.opened.contains_key(&key) {
                let known = open(library, owner, member)?;
                if known.is_none() {
                    self.missing.push(name(member));
                }
                self.opened.insert(key.clone(), known);
            }
            match self.opened.get_mut(&key) {
                Some(Some(known)) => {
                    let mut place = Placing { library, owner, member, known, n_nav, dtype };
                    let pieces = place.pieces(shown, &mut self.sources).map_err(located)?;
                    self.pieces.extend(pieces);
                }
                _ => self.missing_piece(shown, n_nav)?,
            }
            if self.pieces.len() > MOST_PIECES {
                return Err(located(Error::limit(
                    "the virtual data set is cut into too many parts",
                )));
            }
        }
        Ok(())
    }

    fn missing_piece(&mut self, shown: Vec<Blocks>, n_nav: usize) -> Result<()> {
        let (nav, sig) = shown.split_at_checked(n_nav).ok_or_else(no_axes)?;
        if shown.iter().any(|blocks| blocks.len() == 0) {
            return Ok(());
        }
        let (origin, shape) = sig.iter().map(|blocks| as_usize(&blocks.span())).unzip();
        self.pieces.push(Piece {
            source: None,
            shown: nav.to_vec(),
            taken: vec![],
            taken_shape: vec![],
            origin,
            shape,
            axes: vec![],
        });
        Ok(())
    }

    /// What is to be said about sources that are not there.
    fn missing(&self) -> Option<String> {
        let mut names = self.missing.clone();
        names.dedup();
        let listed = names.get(..MOST_NAMED.min(names.len())).unwrap_or_default().join(", ");
        let more = if names.len() > MOST_NAMED { ", …" } else { "" };
        (!names.is_empty()).then(|| {
            format!(
                "{} sources of the virtual data set are not there ({listed}{more}): frames that \
                 nothing else is part of are missing, and others have the fill value in their place",
                names.len()
            )
        })
    }
}

/// One member on its way to pieces.
struct Placing<'a> {
    library: &'a Library,
    owner: &'a Array,
    member: &'a Member,
    known: &'a mut Known,
    n_nav: usize,
    /// What they become.
    dtype: StoredDType,
}

impl Placing<'_> {
    fn pieces(
        &mut self,
        mut shown: Vec<Blocks>,
        sources: &mut Vec<Arc<dyn DataSource>>,
    ) -> Result<Vec<Piece>> {
        let member = self.member;
        let shape = &self.known.shape;
        let mut taken = member.taken.of(shape)?;
        if let (Some(here), Some(there)) =
            (member.shown.endless_axis(), member.taken.endless_axis())
            && let (Some(here), Some(there)) = (shown.get_mut(here), taken.get_mut(there))
        {
            let n = here.len().min(there.len());
            (*here, *there) = (here.truncated(n), there.truncated(n));
        }
        if shown.iter().chain(&taken).any(|blocks| blocks.len() == 0) {
            return Ok(vec![]);
        }
        let (nav, sig) = shown.split_at_checked(self.n_nav).ok_or_else(no_axes)?;
        let (axes, n_taken_nav) = matched(sig, &taken).ok_or_else(|| does_not_fit(member))?;
        let count = |blocks: &[Blocks]| -> u64 {
            blocks.iter().fold(1, |n, blocks| n.saturating_mul(blocks.len()))
        };
        let (taken_nav, taken_sig) = taken.split_at_checked(n_taken_nav).ok_or_else(no_axes)?;
        if count(nav) != count(taken_nav) {
            return Err(does_not_fit(member));
        }
        let taken_shape = shape.get(..n_taken_nav).map(<[u64]>::to_vec).unwrap_or_default();
        let source = self.source(n_taken_nav, sources)?;
        let pieces = boxes(sig, taken_sig, &axes)?.into_iter().map(|cut| Piece {
            source: Some(source),
            shown: nav.to_vec(),
            taken: taken_nav.to_vec(),
            taken_shape: taken_shape.clone(),
            origin: cut.origin,
            shape: cut.shape,
            axes: axes.iter().copied().zip(cut.from).collect(),
        });
        Ok(pieces.collect())
    }

    /// The number of the source of which the first axes count frames.
    fn source(&mut self, n_nav: usize, sources: &mut Vec<Arc<dyn DataSource>>) -> Result<usize> {
        if let Some((_, source)) = self.known.sources.iter().find(|(known, _)| *known == n_nav) {
            return Ok(*source);
        }
        let array = match self.known.array.take() {
            Some(array) => array,
            None => open(self.library, self.owner, self.member)?
                .and_then(|known| known.array)
                .ok_or_else(|| Error::bad_file(format!("{} is gone", name(self.member))))?,
        };
        self.library.count_source()?;
        let sig_axes = (n_nav..self.known.shape.len()).collect();
        let stored = array.dtype;
        let mut frames = Frames::of_one(array, sig_axes)?;
        // What a virtual data set within this one shows is converted only once, as HDF5 does it.
        frames.shown_as = Some(self.dtype);
        let source = source(self.library, frames)?;
        let pair = Pair { from: stored, to: self.dtype };
        sources.push(Converted::of(source, &name(self.member), pair)?);
        self.known.sources.push((n_nav, sources.len() - 1));
        Ok(sources.len() - 1)
    }
}

/// The data set of a member, if it is there.
fn open(library: &Library, owner: &Array, member: &Member) -> Result<Option<Known>> {
    let (dataset, opened) = match library.linked(&owner.owner, &member.file, &member.dataset) {
        Ok(found) => found,
        Err(Unreachable::Absent(_)) => return Ok(None),
        Err(Unreachable::Refused(error)) => return Err(owner.owner.locate(error)),
    };
    let array = Array::try_new(library, &dataset, opened)?;
    let shape = array.shape.iter().map(|&len| u64::try_from(len).unwrap_or(u64::MAX)).collect();
    Ok(Some(Known { shape, array: Some(array), sources: vec![] }))
}

fn name(member: &Member) -> String {
    match member.file.as_str() {
        "." => format!("'{}'", member.dataset),
        file => format!("'{}' of '{file}'", member.dataset),
    }
}

/// Which signal axis each of the last axes of a source is, and how many axes are before those.
fn matched(sig: &[Blocks], taken: &[Blocks]) -> Option<(Vec<usize>, usize)> {
    let mut axes = vec![];
    let mut left = taken.len();
    for (axis, blocks) in sig.iter().enumerate().rev() {
        let last = left.checked_sub(1).and_then(|last| taken.get(last));
        match last {
            Some(last) if last.len() == blocks.len() => {
                axes.push(axis);
                left -= 1;
            }
            _ if blocks.len() == 1 => {}
            _ => return None,
        }
    }
    axes.reverse();
    (!axes.is_empty()).then_some((axes, left))
}

/// A box of cells: where it is shown, and its first cell in the source.
struct Cut {
    origin: Vec<usize>,
    shape: Vec<usize>,
    from: Vec<usize>,
}

/// Cuts what is shown into boxes that are boxes in the source, too.
fn boxes(sig: &[Blocks], taken: &[Blocks], axes: &[usize]) -> Result<Vec<Cut>> {
    let too_many = || Error::limit("the virtual data set is cut into too many parts");
    let mut cuts = vec![Cut { origin: vec![], shape: vec![], from: vec![] }];
    for (axis, shown) in sig.iter().enumerate() {
        let other = axes.iter().position(|&matched| matched == axis).and_then(|i| taken.get(i));
        // Numbers at which a block begins, here or there.
        let mut starts: Vec<u64> = shown.iter().map(|(_, before)| *before).collect();
        starts.extend(other.into_iter().flat_map(|other| other.iter().map(|(_, before)| *before)));
        starts.sort_unstable();
        starts.dedup();
        if cuts.len().saturating_mul(starts.len()) > MOST_PIECES {
            return Err(too_many());
        }
        let mut longer = vec![];
        for cut in &cuts {
            for (i, &start) in starts.iter().enumerate() {
                let end = starts.get(i + 1).copied().unwrap_or(shown.len());
                let (Some(at), Some(from)) =
                    (shown.element(start), other.map_or(Some(0), |other| other.element(start)))
                else {
                    return Err(Error::bug("a selection without elements"));
                };
                let to_usize = |n: u64| usize::try_from(n).map_err(|_| too_many());
                let mut next = Cut {
                    origin: cut.origin.clone(),
                    shape: cut.shape.clone(),
                    from: cut.from.clone(),
                };
                next.origin.push(to_usize(at)?);
                next.shape.push(to_usize(end - start)?);
                if other.is_some() {
                    next.from.push(to_usize(from)?);
                }
                longer.push(next);
            }
        }
        cuts = longer;
    }
    Ok(cuts)
}

fn as_usize(span: &std::ops::Range<u64>) -> (usize, usize) {
    let to_usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    (to_usize(span.start), to_usize(span.end - span.start))
}

fn no_axes() -> Error {
    Error::bad_file("a selection has fewer axes than its array")
}

fn does_not_fit(member: &Member) -> Error {
    Error::unsupported(format!(
        "the virtual data set shows {} in another shape, in which frames cannot be found",
        name(member)
    ))
    .with_hint("copy the data set into a file of its own (h5repack)")
}

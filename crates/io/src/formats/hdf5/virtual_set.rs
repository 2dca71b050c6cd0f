//! Virtual data sets: parts of other data sets, in the same file or in others, shown as one array.
//!
//! Axes without an end are as long as what there is. With names that count, sources that are not
//! there may be followed by ones that are, up to a point.

use super::library::{Library, Opened, Unreachable};
use super::mapping::Entry;
use super::selection::Selection;
use framefold_core::{Error, Result};
use std::collections::BTreeMap;

/// Numbered sources that may be missing before one that is there.
const LONGEST_GAP: u64 = 16;
/// Sources of one virtual data set beyond this are refused.
const MOST_SOURCES: usize = 1 << 20;

/// What a virtual data set is made of, and its shape.
#[derive(Debug)]
pub(super) struct VirtualSet {
    pub(super) shape: Vec<u64>,
    pub(super) members: Vec<Member>,
}

/// Part of a data set, and where it is shown.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) file: String,
    pub(super) dataset: String,
    pub(super) taken: Selection,
    pub(super) shown: Selection,
}

impl VirtualSet {
    /// Looks up what there is of the entries of a data set that was stored with that shape.
    ///
    /// # Errors
    /// Those of opening sources; `BadFile` if there is nothing.
    pub(super) fn try_new(
        library: &Library,
        owner: &Opened,
        shape: &[u64],
        entries: &[Entry],
    ) -> Result<Self> {
        let mut shape = shape.to_vec();
        let mut members = vec![];
        // The ends of what is shown, on axes without an end.
        let mut ends: BTreeMap<usize, u64> = BTreeMap::new();
        for entry in entries {
            let endless = entry.shown.endless_axis();
            let n_blocks = match endless {
                Some(_) if entry.counts() => count_blocks(library, owner, entry)?,
                _ => 1,
            };
            for number in 0..n_blocks {
                let (file, dataset) = entry.names(number);
                let mut member = Member {
                    file,
                    dataset,
                    taken: entry.taken.clone(),
                    shown: entry.shown.clone(),
                };
                if let Some(axis) = endless {
                    if entry.counts() {
                        member.shown = entry.shown.with_block(number).ok_or_else(too_long)?;
                    }
                    let end = match member.shown.axis(axis).and_then(|shown| shown.end()) {
                        Some(end) => end,
                        None => end_of(library, owner, &member, axis)?,
                    };
                    let longest = ends.entry(axis).or_default();
                    *longest = end.max(*longest);
                }
                members.push(member);
                if members.len() > MOST_SOURCES {
                    return Err(too_long());
                }
            }
        }
        for (axis, longest) in ends {
            let others = members.iter().filter_map(|member| member.shown.axis(axis)?.end());
            if let Some(len) = shape.get_mut(axis) {
                *len = others.fold(longest, u64::max);
            }
        }
        if shape.contains(&0) {
            return Err(Error::bad_file(format!(
                "the virtual data set has the shape {shape:?}: nothing that it shows is there"
            ))
            .with_hint("copy all files of the set into one folder"));
        }
        Ok(VirtualSet { shape, members })
    }
}

/// How many numbered sources there are, missing ones in between included.
fn count_blocks(library: &Library, owner: &Opened, entry: &Entry) -> Result<u64> {
    let (mut n, mut gap) = (0u64, 0u64);
    for number in 0.. {
        let (file, dataset) = entry.names(number);
        match library.linked(owner, &file, &dataset) {
            Ok(_) => (n, gap) = (number + 1, 0),
            Err(Unreachable::Absent(_)) => gap += 1,
            Err(Unreachable::Refused(error)) => return Err(error),
        }
        if gap > LONGEST_GAP {
            break;
        }
    }
    Ok(n)
}

/// Behind the last element that a source without an end shows on an axis.
fn end_of(library: &Library, owner: &Opened, member: &Member, axis: usize) -> Result<u64> {
    let dataset = match library.linked(owner, &member.file, &member.dataset) {
        Ok((dataset, _)) => dataset,
        Err(Unreachable::Absent(_)) => return Ok(0),
        Err(Unreachable::Refused(error)) => return Err(error),
    };
    let taken = member.taken.of(dataset.shape())?;
    let taken = match member.taken.endless_axis() {
        Some(endless) => taken.get(endless),
        None => taken.get(axis),
    };
    let n = taken.map_or(0, |taken| taken.len());
    match member.shown.axis(axis) {
        Some(shown) if n > 0 => shown.end_of_first(n).ok_or_else(too_long),
        _ => Ok(0),
    }
}

fn too_long() -> Error {
    Error::limit("a virtual data set is made of too many parts, or of too long ones")
}

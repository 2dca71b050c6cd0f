//! Partitions that end where frames that are stored together end.
//!
//! A source that decodes several frames at a time would decode those at the end of one partition
//! again at the start of the next.

use framefold_core::Partition;

/// Moves the ends of partitions to the nearest frame number that is a multiple of `together`, and
/// joins what becomes empty. `frame_of` gives the number of a selected frame, in ascending order.
pub(super) fn align(
    partitions: Vec<Partition>,
    together: u64,
    frame_of: impl Fn(usize) -> Option<u64>,
) -> Vec<Partition> {
    if together < 2 {
        return partitions;
    }
    let mut aligned: Vec<Partition> = Vec::with_capacity(partitions.len());
    let mut rest = partitions.as_slice();
    while let Some(first) = rest.first() {
        // Partitions that touch each other are one run of frames.
        let touching = rest.windows(2).take_while(|p| p[0].frames.end == p[1].frames.start);
        let (run, after) = rest.split_at(touching.count() + 1);
        rest = after;
        let end = run.last().map_or(first.frames.end, |last| last.frames.end);
        let mut start = first.frames.start;
        let cuts = run.iter().map(|partition| partition.frames.end);
        let nearest =
            cuts.map(
                |cut| if cut == end { end } else { nearest(cut, start, end, together, &frame_of) },
            );
        let mut ends: Vec<usize> = nearest.collect();
        ends.dedup();
        for end in ends {
            if end > start {
                aligned.push(Partition { index: aligned.len(), frames: start..end });
                start = end;
            }
        }
    }
    aligned
}

/// The place between `start` and `end` that is nearest to `cut` and does not part frames.
fn nearest(
    cut: usize,
    start: usize,
    end: usize,
    together: u64,
    frame_of: &impl Fn(usize) -> Option<u64>,
) -> usize {
    let Some(frame) = frame_of(cut) else { return cut };
    let below = frame - frame % together;
    // The first selected frame that is not below `bound`.
    let first = |bound: u64| {
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if frame_of(middle).is_some_and(|frame| frame < bound) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    let (before, after) = (first(below), first(below.saturating_add(together)));
    if cut - before <= after - cut { before } else { after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn partitions(ends: &[(usize, usize)]) -> Vec<Partition> {
        let numbered = ends.iter().enumerate();
        numbered.map(|(index, &(start, end))| Partition { index, frames: start..end }).collect()
    }

    fn ranges(partitions: &[Partition]) -> Vec<(usize, usize)> {
        partitions.iter().map(|p| (p.frames.start, p.frames.end)).collect()
    }

    #[test]
    fn ends_move_to_the_nearest_multiple() {
        let given = partitions(&[(0, 7), (7, 13), (13, 20), (20, 27)]);
        let frame = |i| Some(i as u64);
        let found = ranges(&align(given.clone(), 8, frame));
        assert_eq!(found, [(0, 8), (8, 16), (16, 27)]);
        assert_eq!(align(given.clone(), 1, frame), given);
        // All in one.
        assert_eq!(ranges(&align(given.clone(), 100, frame)), [(0, 27)]);
        // Frame numbers begin elsewhere, and every other one is selected.
        let found = ranges(&align(given, 8, |i| Some(2 * i as u64 + 4)));
        assert_eq!(found, [(0, 6), (6, 14), (14, 18), (18, 27)]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_gap_is_closed(
            lengths in prop::collection::vec((1usize..20, 0usize..2), 1..12),
            together in 1u64..30,
            step in 1u64..4,
        ) {
            let mut at = 0;
            let mut ends = vec![];
            for (len, gap) in lengths {
                ends.push((at, at + len));
                at += len + gap;
            }
            let given = partitions(&ends);
            let found = align(given.clone(), together, |i| Some(i as u64 * step));
            let frames = |all: &[Partition]| -> Vec<usize> {
                all.iter().flat_map(|p| p.frames.clone()).collect()
            };
            prop_assert_eq!(frames(&found), frames(&given));
            prop_assert!(found.iter().enumerate().all(|(i, p)| p.index == i && !p.frames.is_empty()));
            for pair in found.windows(2) {
                let (end, start) = (pair[0].frames.end, pair[1].frames.start);
                let last = (end - 1) as u64 * step / together;
                prop_assert!(start > end || start as u64 * step / together != last);
            }
        }
    }
}

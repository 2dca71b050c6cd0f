//! Some of the elements of one axis.

use std::ops::Range;

/// What is taken of one axis: blocks that do not touch, and how many elements come before each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Blocks {
    blocks: Vec<(Range<u64>, u64)>,
    len: u64,
}

impl Blocks {
    pub(crate) fn new(blocks: Vec<Range<u64>>) -> Self {
        let mut joined: Vec<(Range<u64>, u64)> = vec![];
        let mut len = 0;
        for block in blocks.into_iter().filter(|block| !block.is_empty()) {
            let n = block.end - block.start;
            match joined.last_mut() {
                Some((last, _)) if last.end == block.start => last.end = block.end,
                _ => joined.push((block, len)),
            }
            len += n;
        }
        Blocks { blocks: joined, len }
    }

    /// All elements of a range.
    pub(crate) fn one(range: Range<u64>) -> Self {
        Blocks::new(std::iter::once(range).collect())
    }

    /// How many elements are selected.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The first `len` of them.
    pub(crate) fn truncated(&self, len: u64) -> Self {
        let blocks = self.blocks.iter().filter(|(_, before)| *before < len);
        Blocks::new(
            blocks
                .map(|(block, before)| block.start..block.end.min(block.start + (len - before)))
                .collect(),
        )
    }

    /// From the first to behind the last of them.
    pub(crate) fn span(&self) -> Range<u64> {
        match (self.blocks.first(), self.blocks.last()) {
            (Some((first, _)), Some((last, _))) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Each block, and how many elements come before it.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &(Range<u64>, u64)> {
        self.blocks.iter()
    }

    /// Which of the selected elements that one is.
    pub(crate) fn number_of(&self, element: u64) -> Option<u64> {
        let i = self.blocks.partition_point(|(block, _)| block.end <= element);
        let (block, before) = self.blocks.get(i)?;
        Some(before + element.checked_sub(block.start)?)
    }

    /// The selected element of that number.
    pub(crate) fn element(&self, number: u64) -> Option<u64> {
        let i = self.blocks.partition_point(|(_, before)| *before <= number).checked_sub(1)?;
        let (block, before) = self.blocks.get(i)?;
        let element = block.start + (number - before);
        (element < block.end).then_some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_elements_and_back() {
        let blocks = Blocks::new(vec![1..3, 5..7, 9..10, 10..11]);
        let elements: Vec<u64> = (0..blocks.len()).filter_map(|n| blocks.element(n)).collect();
        assert_eq!(elements, [1, 2, 5, 6, 9, 10]);
        for (number, element) in (0..).zip(elements) {
            assert_eq!(blocks.number_of(element), Some(number));
        }
        for other in [0, 3, 4, 7, 11, 99] {
            assert_eq!(blocks.number_of(other), None);
        }
        assert_eq!(blocks.element(6), None);
        assert_eq!(blocks.span(), 1..11);
    }
}

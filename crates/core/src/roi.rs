//! Which navigation positions take part in a run.

use crate::{Error, Result, memory};

/// A region of interest: the selected positions of the flattened navigation axes.
///
/// Inside a run, frames are counted by their *compressed* index: the k-th selected position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roi {
    positions: Vec<usize>,
    n_frames: usize,
}

impl Roi {
    /// A region of interest from one truth value per flat navigation position.
    ///
    /// # Errors
    /// `InvalidArgument` if no position is selected; `Limit` if there is no memory for them.
    pub fn try_new(mask: Vec<bool>) -> Result<Self> {
        Roi::from_mask(&mask)?.not_empty()
    }

    /// The same ROI, if it selects a position.
    ///
    /// # Errors
    /// `InvalidArgument` if it selects none.
    pub fn not_empty(self) -> Result<Self> {
        if self.positions.is_empty() {
            return Err(Error::invalid("the ROI selects no position")
                .with_hint("set at least one element of the ROI to True, or pass no ROI"));
        }
        Ok(self)
    }

    /// The same, which may select no position: nothing is read then, and results are empty.
    ///
    /// # Errors
    /// `Limit` if there is no memory for the positions.
    pub fn from_mask(mask: &[bool]) -> Result<Self> {
        Roi::from_bytes(bytemuck::cast_slice(mask))
    }

    /// The same of truth values as others have them in memory: any byte but 0 selects its position.
    ///
    /// # Errors
    /// `Limit` if there is no memory for the positions.
    pub fn from_bytes(mask: &[u8]) -> Result<Self> {
        let n_selected = mask.iter().filter(|&&selected| selected != 0).count();
        let mut positions = memory::with_room(n_selected).map_err(|_| {
            Error::limit(format!("there is no memory for the {n_selected} positions of the ROI"))
                .with_hint("select fewer positions")
        })?;
        positions.extend(
            mask.iter().enumerate().filter(|(_, selected)| **selected != 0).map(|(i, _)| i),
        );
        Ok(Roi { positions, n_frames: mask.len() })
    }

    /// Of flat positions in ascending order, each once, of a scan of `n_frames` positions: takes no more memory
    /// than these.
    ///
    /// # Errors
    /// `InvalidArgument` if they are in another order, or beyond the scan.
    pub fn from_positions(positions: Vec<usize>, n_frames: usize) -> Result<Self> {
        let ascend = positions.is_sorted_by(|before, after| before < after);
        if !ascend || positions.last().is_some_and(|&last| last >= n_frames) {
            return Err(Error::invalid(format!(
                "the positions of the ROI are not ascending numbers below {n_frames}"
            )));
        }
        Ok(Roi { positions, n_frames })
    }

    /// How many positions the scan has.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// The selected flat positions, ascending.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// The number of selected positions.
    pub fn n_selected(&self) -> usize {
        self.positions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ascending() {
        let roi = Roi::try_new(vec![false, true, true, false, true]).unwrap();
        assert_eq!(roi.positions(), [1, 2, 4]);
        assert_eq!(roi.n_selected(), 3);
    }

    #[test]
    fn positions_say_the_same_as_a_mask() {
        let roi = Roi::from_positions(vec![1, 2, 4], 5).unwrap();
        assert_eq!(roi, Roi::from_mask(&[false, true, true, false, true]).unwrap());
        assert_eq!(Roi::from_positions(vec![], 5).unwrap(), Roi::from_mask(&[false; 5]).unwrap());
        for wrong in [vec![2, 1], vec![1, 1], vec![4, 5]] {
            assert!(Roi::from_positions(wrong.clone(), 5).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn any_byte_but_0_selects() {
        let roi = Roi::from_bytes(&[0, 255, 2, 0, 1]).unwrap();
        assert_eq!(roi, Roi::from_mask(&[false, true, true, false, true]).unwrap());
    }

    #[test]
    fn an_empty_roi_is_refused() {
        assert!(Roi::try_new(vec![false; 4]).is_err());
        assert_eq!(Roi::from_mask(&[false; 4]).unwrap().n_selected(), 0);
    }
}

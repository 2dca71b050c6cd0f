//! Which navigation positions take part in a run.

use crate::{Error, Result, memory};

/// A region of interest: the selected positions of the flattened navigation axes.
///
/// Inside a run, frames are counted by their *compressed* index: the k-th selected position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roi {
    mask: Vec<bool>,
    positions: Vec<usize>,
}

impl Roi {
    /// A region of interest from one truth value per flat navigation position.
    ///
    /// # Errors
    /// `InvalidArgument` if no position is selected; `Limit` if there is no memory for them.
    pub fn try_new(mask: Vec<bool>) -> Result<Self> {
        let roi = Roi::from_mask(mask)?;
        if roi.positions.is_empty() {
            return Err(Error::invalid("the ROI selects no position")
                .with_hint("set at least one element of the ROI to True, or pass no ROI"));
        }
        Ok(roi)
    }

    /// The same, which may select no position: nothing is read then, and results are empty.
    ///
    /// # Errors
    /// `Limit` if there is no memory for the positions.
    pub fn from_mask(mask: Vec<bool>) -> Result<Self> {
        let n_selected = mask.iter().filter(|&&selected| selected).count();
        let mut positions = memory::with_room(n_selected).map_err(|_| {
            Error::limit(format!("there is no memory for the {n_selected} positions of the ROI"))
                .with_hint("select fewer positions")
        })?;
        positions
            .extend(mask.iter().enumerate().filter(|(_, selected)| **selected).map(|(i, _)| i));
        Ok(Roi { mask, positions })
    }

    /// One truth value per flat navigation position.
    pub fn mask(&self) -> &[bool] {
        &self.mask
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
    fn an_empty_roi_is_refused() {
        assert!(Roi::try_new(vec![false; 4]).is_err());
        assert_eq!(Roi::from_mask(vec![false; 4]).unwrap().n_selected(), 0);
    }
}

//! Dark frame, gain map and bad pixels that are given on the command line.

mod bad_pixels;

pub(crate) use bad_pixels::BadPixels;

use crate::blocks;
use crate::npy_input::read_npy;
use framefold::core::{Corrections, NativeArray};
use framefold::{Dataset, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be done to pixels before all stages.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenCorrections {
    /// A file with what is subtracted.
    pub(crate) dark: Option<PathBuf>,
    /// A file with what is multiplied with.
    pub(crate) gain: Option<PathBuf>,
    /// What [`BadPixels::parse`] takes.
    pub(crate) bad_pixels: Option<String>,
}

impl GivenCorrections {
    pub(crate) fn is_empty(&self) -> bool {
        self.dark.is_none() && self.gain.is_none() && self.bad_pixels.is_none()
    }

    /// The files that they are in.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let bad_pixels = self.bad_pixels.as_deref().filter(|text| blocks::is_file(text));
        let planes = [&self.dark, &self.gain].into_iter().flatten().map(PathBuf::as_path);
        planes.chain(bad_pixels.map(Path::new))
    }

    /// The data set with these corrections, in the place of those that came with its files.
    ///
    /// # Errors
    /// Those of reading the arrays; `InvalidArgument` if they do not fit the frames.
    pub(crate) fn apply(&self, dataset: Dataset) -> Result<Dataset> {
        if self.is_empty() {
            return Ok(dataset);
        }
        let sig = dataset.shape().sig().to_vec();
        let native = dataset.source().info().dtype.dtype;
        let excluded = self.bad_pixels(&sig)?.map(|(_, cells)| cells).unwrap_or_default();
        let try_new = |dark, gain| {
            let all = Corrections::try_new(&sig, dark, gain, excluded.clone(), true)?;
            all.output_dtype(native)?;
            Ok(all)
        };
        // One array after the other, so that an error names its file.
        let dark = plane(self.dark.as_deref(), &sig, |dark| try_new(Some(dark), None))?;
        let gain = plane(self.gain.as_deref(), &sig, |gain| try_new(None, Some(gain)))?;
        let corrections = try_new(dark, gain)?;
        let mut doubts = Vec::new();
        if let Some(own) = dataset.corrections() {
            doubts.push(format!(
                "what comes with the file ({own}) is not applied, as other corrections are given"
            ));
        }
        if let Err(error) = Corrections::try_new(&sig, None, None, excluded.clone(), false) {
            doubts.push(format!("{}; they are left as they are", error.message()));
        }
        let dataset = dataset.with_corrections(Some(Arc::new(corrections)))?;
        Ok(doubts.into_iter().fold(dataset, Dataset::with_doubt))
    }

    /// The bad pixels of frames of shape `sig`: how they are given, and their flat numbers.
    ///
    /// # Errors
    /// As [`GivenCorrections::apply`].
    pub(crate) fn bad_pixels(&self, sig: &[usize]) -> Result<Option<(BadPixels, Vec<usize>)>> {
        self.bad_pixels.as_deref().map(|text| BadPixels::parse(text, sig)).transpose()
    }
}

/// The array of a dark frame or gain map, if there is a file of it, which `fits` checks.
fn plane(
    path: Option<&Path>,
    sig: &[usize],
    fits: impl Fn(NativeArray) -> Result<Corrections>,
) -> Result<Option<NativeArray>> {
    let Some(path) = path else { return Ok(None) };
    let array = read_npy(path)?;
    let array = match *sig {
        // A line may also be an array of one row.
        [len] if array.shape() == [1, len] => NativeArray::try_new(sig, array.into_values())?,
        _ => array,
    };
    let refused = |error: Error| {
        let of_bad_pixels = error.hint().is_some_and(|hint| hint.contains("excluded_pixels"));
        let error = if of_bad_pixels {
            error.with_hint("name these pixels with --bad-pixels, too")
        } else {
            error
        };
        error.with_path(path)
    };
    fits(array.clone()).map_err(refused)?;
    Ok(Some(array))
}

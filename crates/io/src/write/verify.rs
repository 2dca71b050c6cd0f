//! Reads back what was written, as everybody will, and compares it.

use super::checksum::Checksums;
use super::frames::Frames;
use super::pool::{Link, share};
use super::{Cast, Job, hdf5, zarr};
use crate::detect::open_as;
use crate::options::OpenOptions;
use crate::options::{DS_PATH, SIG_DIMS};
use crate::write::WriteFormat;
use framefold_core::{Error, ErrorKind, Result, memory};
use std::path::Path;

/// Compares shape, dtype and the checksum of each frame of what is at `path`.
///
/// # Errors
/// `BadFile` that names the first frame which differs; those of the reader.
pub(super) fn verify(
    job: &Job<'_>,
    path: &Path,
    expected: &Checksums,
    tick: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let ds_path = match job.format {
        WriteFormat::Hdf5 | WriteFormat::Hspy => Some(hdf5::data_path(job)),
        WriteFormat::Zspy => Some(zarr::data_path(job)),
        WriteFormat::Npy | WriteFormat::Zarr => None,
    };
    let options = OpenOptions::default()
        .with_some(DS_PATH.name, ds_path)
        .with(SIG_DIMS.name, job.dataset.shape().sig().len());
    let written = open_as(job.format.reader(), path, &options)?;
    let (shape, dtype) = (written.shape(), written.pixel_dtype());
    // An image by itself is read as a scan of one position.
    let nav = if job.selection.nav.is_empty() { &[1] } else { &*job.selection.nav };
    let same_shape = shape.nav() == nav && shape.sig() == job.dataset.shape().sig();
    if !same_shape || dtype != job.cast.to {
        return Err(Error::bad_file(format!(
            "{dtype} of shape {shape} was read back, not {} of shape {:?}",
            job.cast.to,
            job.shape()
        )));
    }
    let found = Checksums::try_new(job.selection.len())?;
    let cast = Cast::try_new(dtype, None, false)?;
    let worker = || Frames::try_new(&written, cast);
    let work = |frames: &mut Frames<'_>, index: usize, link: &Link<'_>| {
        let unit = job.units.get(index)?;
        let positions = job.units.positions(&unit)?;
        let wanted =
            memory::collected(positions.iter().map(|&position| written.frame_at(position)))?;
        let mut take = |start: usize, bytes: &[u8]| {
            job.sum(&found, &positions, &unit, start, bytes);
            link.check()
        };
        frames.read(&wanted, unit.slice, &mut take)?;
        link.done(if unit.slice.index() == 0 { positions.len() as u64 } else { 0 })
    };
    share(job.units.len(), job.options.threads, &worker, &work, tick)?;
    match expected.first_difference(&found) {
        None => Ok(()),
        Some(position) => Err(Error::bad_file(format!(
            "the frame at position {position} was read back with other pixels than were written"
        ))),
    }
}

/// Says what an error while reading back means.
pub(super) fn explain(error: Error, path: &Path) -> Error {
    match error.kind() {
        ErrorKind::BadFile | ErrorKind::Unsupported | ErrorKind::Limit => {
            Error::bad_file(format!("what was written cannot be read back: {}", error.message()))
                .with_path(path)
                .with_hint("nothing was kept; check the disk, and write it again")
                .with_source(error)
        }
        _ => error,
    }
}

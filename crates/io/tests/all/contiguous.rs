//! Formats whose frames lie at a regular stride: files made here read as they were made, files
//! that are cut or lie give errors in words, and real files read as other readers read them.

mod blo;
mod empad;
mod frms6;
mod hostile;
mod mrc;
mod real_files;
mod seq;
mod tiff;

use crate::oracle::{Frames, Questions};
use framefold_core::{DType, Dataset, FrameIndices, Presence, Result, TilingScheme};
use framefold_io::{Backend, OpenOptions, open_as};
use std::path::Path;

/// Opens a file, without a word about it.
fn plain(format: &str, path: &Path) -> Result<Dataset> {
    open_as(format, path, &OpenOptions::default())
}

/// The bytes of all frames that are there, each with its number, in native byte order.
fn read_all(dataset: &Dataset) -> Result<Vec<(u64, Vec<u8>)>> {
    let info = dataset.source().info();
    let scheme = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 1)?;
    let mut reader = dataset.source().reader()?;
    let everything = 0..info.n_frames;
    let ranges = match &info.presence {
        Presence::All => std::slice::from_ref(&everything),
        Presence::Ranges(ranges) => ranges,
    };
    let mut frames = Vec::new();
    for frame in ranges.iter().flat_map(Clone::clone) {
        let tile = reader.read(FrameIndices::Run(frame..frame + 1), &scheme.slices()[0])?;
        frames.push((frame, tile.frames().as_bytes().to_vec()));
    }
    reader.verify()?;
    Ok(frames)
}

/// Holds a file with `frames` to the contract and to the oracle, with both backends.
///
/// `lends` is `None` where that depends on the address at which the frames begin.
fn check(
    format: &str,
    path: &Path,
    frames: &Frames,
    ask: &Questions,
    lends: impl Into<Option<bool>>,
) {
    let lends = lends.into();
    for backend in [Backend::Mmap, Backend::Buffered] {
        let options = OpenOptions { backend, ..OpenOptions::default() };
        let dataset = open_as(format, path, &options).unwrap();
        let info = dataset.source().info();
        assert_eq!(info.format, format);
        assert_eq!(info.n_frames, frames.n_frames as u64);
        assert_eq!(info.warnings, [] as [&str; 0]);
        let lends = lends.unwrap_or(info.lends);
        assert_eq!(info.lends, lends && backend == Backend::Mmap);
        crate::oracle::check(
            dataset.source().as_ref(),
            frames,
            &crate::oracle::all(frames.n_frames),
            ask,
        );
        framefold_testkit::check_source(dataset.source().as_ref()).unwrap();
    }
}

/// Frames of a dtype without NaN, so that bytes can be compared.
fn frames(dtype: impl Into<framefold_core::StoredDType>, n: usize, sig: &[usize]) -> Frames {
    Frames::random(dtype.into(), n, sig, 7)
}

/// One of some dtypes.
fn any_of(dtypes: &'static [DType]) -> impl proptest::strategy::Strategy<Value = DType> {
    proptest::sample::select(dtypes)
}

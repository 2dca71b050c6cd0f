//! Helpers that read pixels through the public interface.

use framefold_core::{Dataset, FrameIndices, Presence, SigSlice, TileFrames, TilingScheme};
use framefold_io::{OpenOptions, open_as};
use std::ops::Range;
use std::path::Path;

/// Opens a file as MIB.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> framefold_core::Result<Dataset> {
    open_as("mib", path, options)
}

/// Opens a file without its neighbours.
pub fn alone() -> OpenOptions {
    OpenOptions::default().with("disable_glob", true)
}

/// A tiling with a single slice.
pub fn whole_frames(dataset: &Dataset) -> TilingScheme {
    let sig = dataset.shape().sig();
    TilingScheme::try_new(sig, sig, 1).unwrap()
}

/// The cells `sig` of `frames`.
pub fn read(dataset: &Dataset, frames: FrameIndices<'_>, sig: &SigSlice) -> Vec<u32> {
    let mut reader = dataset.source().reader().unwrap();
    let tile = reader.read(frames, sig).unwrap();
    let cells = match tile.frames() {
        TileFrames::U8(view) => view.frames().flatten().map(|&v| u32::from(v)).collect(),
        TileFrames::U16(view) => view.frames().flatten().map(|&v| u32::from(v)).collect(),
        TileFrames::U32(view) => view.frames().flatten().copied().collect(),
        other => panic!("unexpected dtype {}", other.dtype()),
    };
    reader.verify().unwrap();
    cells
}

/// All cells of all frames that are there.
pub fn read_all(dataset: &Dataset) -> Vec<u32> {
    let scheme = whole_frames(dataset);
    let info = dataset.source().info();
    let everything = 0..info.n_frames;
    let ranges = match &info.presence {
        Presence::All => std::slice::from_ref(&everything),
        Presence::Ranges(ranges) => ranges,
    };
    let read_run =
        |run: &Range<u64>| read(dataset, FrameIndices::Run(run.clone()), &scheme.slices()[0]);
    ranges.iter().flat_map(read_run).collect()
}

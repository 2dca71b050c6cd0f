//! Real files that were cut, and real files with wrong bytes: errors, or pixels, but no panic.

use super::conformance::entries;
use crate::real_files::data_directory;
use framefold_core::{Error, ErrorKind, FrameIndices, TilingScheme, interrupt};
use framefold_io::{OpenOptions, open_as};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Opens a file and reads its first frames; `Ok` if there are any.
fn first_frames(path: &Path) -> framefold_core::Result<()> {
    let dataset = open_as("hdf5", path, &OpenOptions::default())?;
    let info = dataset.source().info();
    let whole = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 2)?;
    // A wrong shape may promise frames of any size.
    if whole.slices()[0].len() > 1 << 24 {
        return Ok(());
    }
    let mut reader = dataset.source().reader()?;
    reader.read(FrameIndices::Run(0..info.n_frames.min(2)), &whole.slices()[0])?;
    reader.verify()
}

fn attempt(path: &Path, what: &str) -> bool {
    let outcome = first_frames(path);
    if let Err(error) = &outcome {
        assert_ne!(error.kind(), ErrorKind::Bug, "{what}: {error}");
        assert!(!error.message().contains("gave up"), "{what}: {error}");
    }
    outcome.is_ok()
}

#[test]
fn files_that_were_cut_or_changed() {
    let Some(directory) = data_directory() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    for entry in entries() {
        let name = entry["file"].as_str().unwrap();
        let whole = std::fs::read(directory.join(name)).unwrap();
        std::fs::write(&path, &whole).unwrap();
        if !attempt(&path, name) {
            continue;
        }
        let mut file = File::options().write(true).open(&path).unwrap();
        let step = (whole.len() / 16).max(1);
        let ends = (0..2048.min(whole.len())).step_by(201).chain((2048..whole.len()).step_by(step));
        for end in ends.collect::<Vec<_>>().into_iter().rev() {
            file.set_len(end as u64).unwrap();
            attempt(&path, &format!("{name}, {end} bytes of it"));
        }
        file.write_all(&whole).unwrap();
        for at in (0..4096.min(whole.len())).step_by(83).chain((4096..whole.len()).step_by(step)) {
            let mut change = |flip: u8| {
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&[whole[at] ^ flip]).unwrap();
            };
            for flip in [1, 0x80, 0xFF] {
                change(flip);
                attempt(&path, &format!("{name}, byte {at} changed by {flip:02x}"));
            }
            change(0);
        }
    }
}

#[test]
fn tiles_of_many_chunks_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let about = r#"{"zarr_format": 2, "shape": [1, 1024, 1024], "chunks": [1, 1, 1],
        "dtype": "<u2", "order": "C", "compressor": null, "fill_value": 0, "filters": null}"#;
    std::fs::write(folder.path().join(".zarray"), about).unwrap();
    let dataset = open_as("zarr", folder.path(), &OpenOptions::default()).unwrap();
    let whole = TilingScheme::try_new(&[1024, 1024], &[1024, 1024], 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let mut read = || reader.read(FrameIndices::Run(0..1), &whole.slices()[0]).map(drop);
    let stopped = interrupt::watched(|| Err(Error::cancelled()), &mut read).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
}

//! Writing arrays: what is read back is what there was, and nothing is left of what failed.

use framefold_core::{
    Arrival, DType, DataSource, Dataset, DenseTile, Error, ErrorKind, FrameIndices, FrameReader,
    NativeArray, Result, Roi, SigSlice, SourceInfo, TilingScheme,
};
use framefold_io::{
    Compression, OpenOptions, WriteFormat, WriteOptions, ZarrVersion, open, open_as, write_dataset,
};
use framefold_testkit::{MemoryOptions, MemorySource, Values, check_source, random_values};
use proptest::prelude::*;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

fn dataset(dtype: DType, nav: &[usize], sig: &[usize], sync_offset: i64) -> Dataset {
    let n_frames = nav.iter().product::<usize>();
    let cells = n_frames * sig.iter().product::<usize>();
    let values = random_values(dtype, cells, Values::NonFinite, 5);
    let shape: Vec<usize> = std::iter::once(n_frames).chain(sig.iter().copied()).collect();
    let frames = NativeArray::try_new(&shape, values).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    Dataset::try_new(Arc::new(source), Some(nav), sync_offset).unwrap()
}

/// The bytes of a frame; `None` if it is missing.
fn frame(dataset: &Dataset, position: usize) -> Option<Vec<u8>> {
    let frame = dataset.frame_at(position)?;
    let sig = dataset.shape().sig();
    let tiling = TilingScheme::try_new(sig, sig, 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let tile = reader.read(FrameIndices::Run(frame..frame + 1), &tiling.slices()[0]).unwrap();
    Some(tile.frames().as_bytes().to_vec())
}

fn write(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<Dataset> {
    let written = write_dataset(dataset, path, options, &mut |_| Ok(()))?;
    assert!(written.verified);
    assert_eq!(written.len_bytes, size(path));
    let name = match WriteFormat::of_path(path).unwrap() {
        WriteFormat::Npy => "npy",
        WriteFormat::Zarr | WriteFormat::Zspy => "zarr",
        _ => "hdf5",
    };
    let sig_dims = dataset.shape().sig().len();
    let hyperspy = ["hspy", "zspy"].iter().any(|ending| path.extension().unwrap() == *ending);
    let ds_path = hyperspy.then_some("Experiments/__unnamed__/data");
    let ds_path = ds_path.or((name == "hdf5").then_some("data"));
    let options = OpenOptions::default().with("sig_dims", sig_dims).with_some("ds_path", ds_path);
    open_as(name, path, &options)
}

fn size(path: &Path) -> u64 {
    if path.is_file() {
        return path.metadata().unwrap().len();
    }
    std::fs::read_dir(path).unwrap().map(|entry| size(&entry.unwrap().path())).sum()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const FORMATS: [&str; 5] = ["npy", "zarr", "h5", "hspy", "zspy"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read_back(
        dtype in prop::sample::select(DType::all().collect::<Vec<_>>()),
        nav in prop::collection::vec(1usize..7, 1..4),
        sig in prop::collection::vec(1usize..12, 1..4),
        chunk in prop::option::of(prop::collection::vec(1usize..9, 6)),
        format in 0usize..FORMATS.len(),
        version in prop::sample::select(vec![ZarrVersion::V2, ZarrVersion::V3]),
        compression in prop::sample::select(Compression::ALL.to_vec()),
        offset in -3i64..3,
        roi in prop::option::of(any::<u64>()),
    ) {
        let n = nav.iter().product::<usize>();
        let offset = offset.clamp(1 - n as i64, n as i64 - 1);
        let source = dataset(dtype, &nav, &sig, offset);
        let mut mask: Vec<bool> = (0..n).map(|i| roi.is_none_or(|bits| bits >> (i % 64) & 1 == 1)).collect();
        mask[n - 1] = true;
        let n_axes = nav.len() + sig.len();
        let plain = format == 0;
        let options = WriteOptions {
            zarr_format: (FORMATS[format] == "zarr").then_some(version),
            // Positions that are no rectangle become one axis.
            chunks: chunk.filter(|_| !plain && roi.is_none()).map(|chunk| chunk[..n_axes].to_vec()),
            compression: (!plain).then_some(compression.1),
            roi: roi.map(|_| Arc::new(Roi::try_new(mask.clone()).unwrap())),
            threads: std::num::NonZeroUsize::new(2),
            ..WriteOptions::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("out.{}", FORMATS[format]));
        let written = write(&source, &path, &options).unwrap();
        prop_assert_eq!(names(folder.path()).len(), 1);
        prop_assert_eq!(written.pixel_dtype(), dtype);
        prop_assert_eq!(written.shape().sig(), &sig[..]);
        let positions: Vec<usize> = (0..n).filter(|&i| mask[i]).collect();
        if roi.is_none() {
            prop_assert_eq!(written.shape().nav(), &nav[..]);
        }
        prop_assert_eq!(written.shape().n_frames(), positions.len());
        for (out, position) in positions.into_iter().enumerate() {
            let found = frame(&written, out).unwrap();
            match frame(&source, position) {
                Some(expected) => prop_assert_eq!(found, expected),
                None if dtype.is_float() || dtype.is_complex() => {
                    prop_assert!(found.chunks(dtype.swap_size()).all(is_nan));
                }
                None => prop_assert!(found.iter().all(|&byte| byte == 0)),
            }
        }
    }
}

fn is_nan(bytes: &[u8]) -> bool {
    match bytes {
        [a, b] => u16::from_ne_bytes([*a, *b]) & 0x7FFF > 0x7C00,
        [a, b, c, d] => f32::from_ne_bytes([*a, *b, *c, *d]).is_nan(),
        _ => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
    }
}

#[test]
fn large_frames_are_written_in_bands() {
    // A piece of 32 MiB holds a part of each of these frames.
    let frames = NativeArray::zeros(DType::U16, &[3, 2500, 2600]);
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let source = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for ending in ["zarr", "h5"] {
        let options = WriteOptions { chunks: Some(vec![3, 700, 900]), ..WriteOptions::default() };
        let path = folder.path().join(format!("out.{ending}"));
        let written = write(&source, &path, &options).unwrap();
        assert_eq!(written.shape(), source.shape());
        assert_eq!(frame(&written, 2), frame(&source, 2));
        check_source(written.source().as_ref()).unwrap();
    }
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let source = dataset(DType::U16, &[40, 50], &[64, 80], 0);
    let folder = tempfile::tempdir().unwrap();
    for ending in ["h5", "hspy"] {
        let bytes = |threads: usize| {
            let path = folder.path().join(format!("{threads}.{ending}"));
            let threads = std::num::NonZeroUsize::new(threads);
            let options = WriteOptions { threads, ..WriteOptions::default() };
            write(&source, &path, &options).unwrap();
            std::fs::read(path).unwrap()
        };
        assert!(bytes(1) == bytes(4));
    }
}

#[test]
fn nothing_is_left_of_what_was_stopped() {
    let source = dataset(DType::U16, &[20, 50], &[64, 64], 0);
    let folder = tempfile::tempdir().unwrap();
    for ending in FORMATS {
        let path = folder.path().join(format!("out.{ending}"));
        for stop in 0..3 {
            let mut calls = 0;
            let done = write_dataset(&source, &path, &WriteOptions::default(), &mut |_| {
                calls += 1;
                if calls > stop { Err(Error::cancelled()) } else { Ok(()) }
            });
            assert_eq!(done.unwrap_err().kind(), ErrorKind::Cancelled);
            assert!(names(folder.path()).is_empty());
        }
        let mut last = 0;
        let options = WriteOptions::default();
        let mut progress = |n: u64| {
            assert!(n >= last);
            last = n;
            Ok(())
        };
        write_dataset(&source, &path, &options, &mut progress).unwrap();
        assert_eq!(last, 1000);
        remove(&path);
    }
}

fn remove(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn output_that_exists_is_kept_or_replaced() {
    let source = dataset(DType::U8, &[3], &[4, 5], 0);
    let folder = tempfile::tempdir().unwrap();
    let force = WriteOptions { force: true, ..WriteOptions::default() };
    for ending in FORMATS {
        let path = folder.path().join(format!("out.{ending}"));
        std::fs::write(&path, b"mine").unwrap();
        let error = write(&source, &path, &WriteOptions::default()).unwrap_err();
        assert!(error.to_string().contains("the output exists"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        for _ in 0..2 {
            write(&source, &path, &force).unwrap();
        }
        let written = open(&path, &OpenOptions::default()).unwrap();
        let error = write(&written, &path, &force).unwrap_err();
        assert!(error.to_string().contains("the output is one of the input files"), "{error}");
        check_source(written.source().as_ref()).unwrap();
    }
    let within = folder.path().join("out.zarr").join("copy.zarr");
    let options = OpenOptions::default();
    let read = open(folder.path().join("out.zarr"), &options).unwrap();
    let error = write(&read, &within, &force).unwrap_err();
    assert!(error.to_string().contains("within the folder"), "{error}");
    // A folder with other things in it is nothing to replace.
    let precious = folder.path().join("precious.zarr");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("thesis.txt"), b"words").unwrap();
    let error = write(&source, &precious, &force).unwrap_err();
    assert!(error.to_string().contains("to replace it would remove 'thesis.txt'"), "{error}");
    assert_eq!(std::fs::read(precious.join("thesis.txt")).unwrap(), b"words");
    let nowhere = folder.path().join("nowhere").join("out.npy");
    assert_eq!(write(&source, &nowhere, &force).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn what_was_left_by_a_killed_run_is_removed() {
    let source = dataset(DType::U8, &[3], &[4, 5], 0);
    let folder = tempfile::tempdir().unwrap();
    for ending in FORMATS {
        let hidden = |what: &str| folder.path().join(format!(".out.{ending}.framefold-{what}"));
        std::fs::write(hidden("lock"), b"").unwrap();
        if ending == "zarr" {
            std::fs::create_dir_all(hidden("part").join("c")).unwrap();
        } else {
            std::fs::write(hidden("part"), b"half").unwrap();
        }
        let path = folder.path().join(format!("out.{ending}"));
        write(&source, &path, &WriteOptions::default()).unwrap();
        assert_eq!(names(folder.path()), [format!("out.{ending}")]);
        remove(&path);
    }
    // Another writer works on this one.
    let held = std::fs::File::create(folder.path().join(".out.h5.framefold-lock")).unwrap();
    held.lock().unwrap();
    let path = folder.path().join("out.h5");
    let error = write(&source, &path, &WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("another run is writing it"), "{error}");
}

#[test]
fn replacing_keeps_permissions_and_groups() {
    let source = dataset(DType::U8, &[3], &[4, 5], 0);
    let folder = tempfile::tempdir().unwrap();
    let force = WriteOptions { force: true, ..WriteOptions::default() };
    #[cfg(unix)]
    for ending in FORMATS {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(format!("out.{ending}"));
        write(&source, &path, &force).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        write(&source, &path, &force).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{ending}");
    }
    let group = folder.path().join("group.zarr");
    write(&source, &group.join("c"), &force).unwrap_err();
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
    write(&source, &group.join("scan.zarr"), &force).unwrap();
    let error = write(&source, &group, &force).unwrap_err().to_string();
    assert!(error.contains("a Zarr group; to replace it would remove 'scan.zarr'"), "{error}");
    assert_eq!(names(&group), ["scan.zarr", "zarr.json"]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let source = dataset(DType::U16, &[3], &[4, 5], 0);
    let folder = tempfile::tempdir().unwrap();
    let refuse = |name: &str, options: WriteOptions, words: &str| {
        let error = write(&source, &folder.path().join(name), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(names(folder.path()).is_empty());
    };
    let default = WriteOptions::default;
    refuse("out.tif", default(), "does not end in");
    refuse("out.npy", WriteOptions { chunks: Some(vec![1, 4, 5]), ..default() }, "neither chunks");
    refuse("out.h5", WriteOptions { chunks: Some(vec![1, 4]), ..default() }, "not of the axes");
    refuse("out.h5", WriteOptions { chunks: Some(vec![1, 0, 5]), ..default() }, "length of 0");
    refuse("out.zarr", WriteOptions { level: Some(23), ..default() }, "no level 23");
    refuse("out.npy", WriteOptions { dtype: Some(DType::Bool), ..default() }, "cannot be written");
    let roi = Some(Arc::new(Roi::try_new(vec![true; 4]).unwrap()));
    refuse("out.zarr", WriteOptions { roi, ..default() }, "4 positions");
    for name in ["out.npy", "out.h5", "out.zarr", "out.hspy"] {
        let roi = Some(Arc::new(Roi::from_mask(&[false; 3]).unwrap()));
        refuse(name, WriteOptions { roi, ..default() }, "selects no position");
    }
}

/// Frames of another source, with something wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Odd {
    Short,
    Panics,
    NotYet,
    Never,
}

#[derive(Debug)]
struct OddSource(Arc<dyn DataSource>, Odd);

impl DataSource for OddSource {
    fn info(&self) -> &SourceInfo {
        self.0.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(OddReader(self.0.reader()?, self.1)))
    }

    fn arrival(&self, _: Range<u64>) -> Arrival {
        match self.1 {
            Odd::NotYet => Arrival::NotYet,
            Odd::Never => Arrival::Never,
            Odd::Short | Odd::Panics => Arrival::Here,
        }
    }
}

struct OddReader<'s>(Box<dyn FrameReader + 's>, Odd);

impl FrameReader for OddReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        assert!(self.1 != Odd::Panics, "at read");
        self.0.read(frames.part(0, frames.len() - 1), sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.0.verify()
    }
}

#[test]
fn sources_that_do_not_give_all_frames_are_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for (odd, words) in [
        (Odd::Short, "the source gave 5 frames of 12 cells of uint16 for 6 frames of 12"),
        (Odd::Panics, "the source of the frames panicked: at read"),
        (Odd::NotYet, "some frames of the data set have not arrived"),
        (Odd::Never, "some frames of the data set will never arrive"),
    ] {
        let whole = dataset(DType::U16, &[2, 3], &[3, 4], 0);
        let source = Arc::new(OddSource(whole.source().clone(), odd));
        let dataset = Dataset::try_new(source, Some(&[2, 3]), 0).unwrap();
        let options = WriteOptions { unverified: true, ..WriteOptions::default() };
        let path = folder.path().join("out.npy");
        let error = write_dataset(&dataset, &path, &options, &mut |_| Ok(())).unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

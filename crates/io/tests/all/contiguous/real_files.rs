//! Real files against what independent readers say of them.

use crate::real_files::data_dir;
use framefold_core::{DType, Dataset, DenseTile, FrameIndices, Scratch, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect, open};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The files of one format with their readings; none, with a word about it, where there are none.
fn entries(format: &str) -> Vec<(PathBuf, Vec<Value>)> {
    let entries = crate::real_files::entries(format).into_iter();
    let entries = entries.filter(|entry| entry["readable"] == true);
    entries
        .map(|entry| {
            let readings = entry["readings"].as_array().unwrap().iter();
            let readings = readings.filter(|reading| reading["sum_f64"].is_number()).cloned();
            (data_dir().join(entry["file"].as_str().unwrap()), readings.collect())
        })
        .collect()
}

fn numbers(value: &Value) -> Vec<usize> {
    let items = value.as_array().unwrap().iter();
    items.map(|n| usize::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

/// All values in C order, as `f64`: exact for every dtype of the real files.
fn values(dataset: &Dataset) -> Vec<f64> {
    let info = dataset.source().info();
    let scheme = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let mut all = Vec::new();
    for frame in 0..info.n_frames {
        let run = FrameIndices::Run(frame..frame + 1);
        let frames = reader.read(run, &scheme.slices()[0]).unwrap().frames();
        let mut scratch = Scratch::new();
        let tile = DenseTile::borrowed(frames);
        let wide = framefold_core::convert_tile(&tile, DType::F64, &mut scratch).unwrap();
        let groups = wide.frames().as_bytes().chunks_exact(8);
        all.extend(groups.map(|group| f64::from_ne_bytes(group.try_into().unwrap())));
    }
    reader.verify().unwrap();
    all
}

/// Compares whatever a reading tells, whatever the shape of the scan.
fn compare(dataset: &Dataset, reading: &Value, name: &str) {
    let shape = numbers(&reading["shape"]);
    let all = values(dataset);
    assert_eq!(all.len(), shape.iter().product::<usize>(), "{name}");
    assert!(shape.ends_with(dataset.shape().sig()), "{name}: {}", dataset.shape());
    let dtype = dataset.source().info().dtype.dtype.name();
    assert_eq!(Some(dtype), reading["dtype"].as_str(), "{name}");
    let expect = |key: &str| reading[key].as_f64().unwrap();
    assert_eq!(all.iter().copied().fold(f64::INFINITY, f64::min), expect("min"), "{name}");
    assert_eq!(all.iter().copied().fold(f64::NEG_INFINITY, f64::max), expect("max"), "{name}");
    // Summed in another order than NumPy's, floats may differ in the last bits.
    let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected.abs();
    assert!(close(all.iter().sum(), expect("sum_f64")), "{name}");
    let frame = dataset.shape().frame_len();
    assert!(close(all[..frame].iter().sum(), expect("sum_first_frame")), "{name}");
    assert!(close(all[all.len() - frame..].iter().sum(), expect("sum_last_frame")), "{name}");
    let probes = reading["probes"].as_array().unwrap();
    assert!(!probes.is_empty());
    for probe in probes {
        let flat = numbers(&probe[0]).iter().zip(&shape).fold(0, |flat, (i, n)| flat * n + i);
        // The reader of JSON can be off by the last bit.
        let expected = probe[1].as_f64().unwrap();
        let same = (all[flat] - expected).abs() <= 4.0 * f64::EPSILON * expected.abs();
        assert!(same, "{name} at {}: {} {expected}", probe[0], all[flat]);
    }
}

/// Opens each file that `wanted` takes and compares it with each reading, which `fits` can skip.
fn check(format: &str, name: &str, at_least: usize, fits: impl Fn(&Path, &Value) -> bool) {
    let entries = entries(format);
    let none = entries.is_empty();
    let mut n_compared = 0;
    for (path, readings) in entries {
        let label = path.display().to_string();
        for reading in readings.iter().filter(|reading| fits(&path, reading)) {
            assert_eq!(detect(&path).unwrap().format.name, name, "{label}");
            for backend in [Backend::Mmap, Backend::Buffered] {
                let options = OpenOptions { backend, ..OpenOptions::default() };
                compare(&open(&path, &options).unwrap(), reading, &label);
            }
            n_compared += 1;
        }
    }
    assert!(none || n_compared >= at_least, "only {n_compared} readings of {format}");
}

#[test]
fn blo_files() {
    check("BLO", "blo", 4, |_, _| true);
}

#[test]
fn empad_files() {
    // Pictures that the software made of the frames belong to another format.
    let is_xml = |path: &Path| path.extension().is_some_and(|extension| extension == "xml");
    check("EMPAD", "empad", 2, |path, _| is_xml(path));
}

#[test]
fn xml_files_without_their_frames_are_recognized() {
    for name in [
        "EMPAD/hyperspy/map128x128_version1.2.0.xml",
        "EMPAD/hyperspy/map64x64.xml",
        "EMPAD/rosettasciio/EMPAD_v1.2.2_x32_y64_size0.8.xml",
        "EMPAD/rosettasciio/map4x4.xml",
    ] {
        let path = data_dir().join(name);
        if path.exists() {
            assert_eq!(detect(&path).unwrap().format.name, "empad", "{name}");
            let error = open(&path, &OpenOptions::default()).unwrap_err();
            assert!(error.to_string().contains("beside it"), "{error}");
        }
    }
}

#[test]
fn mrc_files() {
    check("MRC", "mrc", 20, |_, _| true);
}

#[test]
fn movies_of_direct_electron_have_the_shape_of_their_scan() {
    let path = data_dir().join("MRC/rosettasciio/20241021_00405_movie.mrc");
    if path.exists() {
        let dataset = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(dataset.shape().dims(), [4, 8, 4, 8]);
        let facts = &dataset.source().info().metadata;
        let number = |quantity| match facts.get(quantity) {
            Some(framefold_core::MetadataValue::Number(number)) => *number,
            other => panic!("{other:?}"),
        };
        use framefold_core::Quantity;
        assert_eq!(number(Quantity::AccelerationVoltage), 300.0);
        assert_eq!(number(Quantity::CountsPerElectron), 51.0);
        assert!((number(Quantity::ExposureTime) - 1.4275e-3).abs() < 1e-12);
    }
}

#[test]
fn seq_files() {
    let is_seq = |path: &Path| path.extension().is_some_and(|extension| extension == "seq");
    // One reader cuts the frames of a camera with a buffer into smaller ones.
    let whole = |reading: &Value| !reading["reader"].as_str().unwrap().contains("celeritas");
    check("SEQ", "seq", 6, |path, reading| is_seq(path) && whole(reading));
}

#[test]
fn tiff_files() {
    // To the manifest, each row of a picture in colour is a frame.
    let is_grey = |reading: &Value| !numbers(&reading["shape"]).ends_with(&[3]);
    let by_tifffile = |reading: &Value| reading["reader"].as_str().unwrap().starts_with("tifffile");
    check("TIFF", "tiff", 10, |_, reading| by_tifffile(reading) && is_grey(reading));
}

#[test]
fn prz_files() {
    check("PRZ", "prz", 2, |_, _| true);
}

#[test]
fn spe_files() {
    let is_spe = |path: &Path| path.extension().is_some_and(|extension| extension == "spe");
    check("SPE", "spe", 1, |path, _| is_spe(path));
}

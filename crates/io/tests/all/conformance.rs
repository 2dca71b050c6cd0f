//! Real NPY files against what independent readers say of them.

use crate::real_files::{data_dir, entries};
use framefold_core::{DType, Dataset, FrameIndices, TileFrames, TilingScheme, dispatch_frames};
use framefold_io::{Backend, OpenOptions, detect, open};
use serde_json::Value;

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
        let tile = reader.read(run, &scheme.slices()[0]).unwrap();
        let owned = as_f64(tile.frames());
        all.extend(owned);
    }
    reader.verify().unwrap();
    all
}

fn as_f64(frames: TileFrames<'_>) -> Vec<f64> {
    let tile = framefold_core::DenseTile::borrowed(frames);
    let mut scratch = framefold_core::Scratch::new();
    let wide = framefold_core::convert_tile(&tile, DType::F64, &mut scratch).unwrap();
    let bytes = dispatch_frames!(wide.frames(), view => view.depth() * view.frame_len());
    assert_eq!(wide.frames().as_bytes().len(), bytes * 8);
    let groups = wide.frames().as_bytes().chunks_exact(8);
    groups.map(|group| f64::from_ne_bytes(group.try_into().unwrap())).collect()
}

fn compare(dataset: &Dataset, reading: &Value, name: &str) {
    let shape = numbers(&reading["shape"]);
    let all = values(dataset);
    assert_eq!(all.len(), shape.iter().product::<usize>(), "{name}");
    assert!(dataset.shape().dims().ends_with(&shape), "{name}: {}", dataset.shape());
    let dtype = dataset.source().info().dtype.dtype.name();
    assert_eq!(Some(dtype), reading["dtype"].as_str(), "{name}");
    let expect = |key: &str| reading[key].as_f64().unwrap();
    assert_eq!(all.iter().copied().fold(f64::INFINITY, f64::min), expect("min"), "{name}");
    assert_eq!(all.iter().copied().fold(f64::NEG_INFINITY, f64::max), expect("max"), "{name}");
    // Summed in another order than NumPy's, floats may differ in the last bits.
    let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-12 * expected.abs();
    assert!(close(all.iter().sum(), expect("sum_f64")), "{name}");
    let frame = dataset.shape().frame_len();
    assert!(close(all[..frame].iter().sum(), expect("sum_first_frame")), "{name}");
    assert!(close(all[all.len() - frame..].iter().sum(), expect("sum_last_frame")), "{name}");
    for probe in reading["probes"].as_array().unwrap() {
        let flat = numbers(&probe[0]).iter().zip(&shape).fold(0, |flat, (i, n)| flat * n + i);
        assert_eq!(Some(all[flat]), probe[1].as_f64(), "{name} at {}", probe[0]);
    }
}

#[test]
fn npy_files_read_as_numpy_reads_them() {
    for entry in entries("NPY") {
        let name = entry["file"].as_str().unwrap();
        let path = data_dir().join(name);
        assert_eq!(detect(&path).unwrap().format.name, "npy", "{name}");
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open(&path, &options).unwrap();
            for reading in entry["readings"].as_array().unwrap() {
                compare(&dataset, reading, name);
            }
        }
    }
}

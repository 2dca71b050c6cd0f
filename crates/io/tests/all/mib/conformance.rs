//! Real files of the detector, against what independent readers made of them.
//!
//! `crate::real_files` says where they lie.

use super::read::{alone, open, read_all};
use crate::real_files::{data_directory, entries, numbers};
use framefold_core::DType;
use framefold_io::{Backend, OpenOptions};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Whether the reader put the last row of the file first.
fn flips_rows(reading: &Value) -> bool {
    let reader = reading["reader"].as_str().unwrap();
    let orientation = reading["orientation"].as_str().unwrap_or_default();
    reader.starts_with("rosettasciio") || orientation.contains("fpd flips rows")
}

/// Whether the geometry of the reading is known to be doubtful; its sums are not.
fn geometry_is_doubtful(reading: &Value) -> bool {
    reading["reader"].as_str().unwrap().contains("LOW CONFIDENCE")
}

fn flip_rows(cells: &[u32], [rows, columns]: [usize; 2]) -> Vec<u32> {
    let flip = |frame: &[u32]| frame.chunks(columns).rev().flatten().copied().collect::<Vec<_>>();
    cells.chunks(rows * columns).flat_map(flip).collect()
}

fn hash(cells: &[u32], dtype: DType) -> String {
    let bytes: Vec<u8> =
        cells.iter().flat_map(|value| value.to_le_bytes()[..dtype.size()].to_vec()).collect();
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sum(cells: &[u32]) -> f64 {
    cells.iter().map(|&value| f64::from(value)).sum()
}

#[test]
fn every_reading_of_every_file() {
    let Some(directory) = data_directory() else { return };
    let (mut n_files, mut n_hashes) = (0, 0);
    for entry in entries("MIB") {
        let name = entry["file"].as_str().unwrap();
        for backend in [Backend::Mmap, Backend::Buffered] {
            // With neighbours: the other acquisitions beside it must not get in.
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open(directory.join(name), &options).unwrap();
            let info = dataset.source().info();
            assert_eq!(info.paths, [directory.join(name)], "{name}");
            let [rows, columns] = info.sig_shape[..] else { panic!("{name}: {info:?}") };
            let dtype = info.dtype.dtype;
            let as_stored = read_all(&dataset);
            for reading in entry["readings"].as_array().unwrap() {
                let shape = numbers(&reading["shape"]);
                let context = format!("{name}, as read by {}", reading["reader"]);
                assert_eq!(shape[shape.len() - 2..], [rows, columns], "{context}");
                assert_eq!(Some(info.n_frames), reading["n_frames"].as_u64(), "{context}");
                let expected = reading["dtype"].as_str().unwrap();
                let expected = framefold_core::StoredDType::parse(expected).unwrap();
                assert_eq!(dtype, expected.dtype, "{context}");

                let flipped = flips_rows(reading);
                let cells = if flipped {
                    flip_rows(&as_stored, [rows, columns])
                } else {
                    as_stored.clone()
                };
                let number = |key: &str| reading[key].as_f64().unwrap();
                assert_eq!(f64::from(*cells.iter().min().unwrap()), number("min"), "{context}");
                assert_eq!(f64::from(*cells.iter().max().unwrap()), number("max"), "{context}");
                assert_eq!(sum(&cells), number("sum_f64"), "{context}");
                let sums: Vec<f64> = cells.chunks(rows * columns).map(sum).collect();
                assert_eq!(sums.first(), Some(&number("sum_first_frame")), "{context}");
                assert_eq!(sums.last(), Some(&number("sum_last_frame")), "{context}");
                if let Some(expected) = reading["frame_sums"].as_array() {
                    let expected: Vec<f64> = expected.iter().map(|n| n.as_f64().unwrap()).collect();
                    assert_eq!(sums, expected, "{context}");
                }
                if geometry_is_doubtful(reading) {
                    continue;
                }
                for probe in reading["probes"].as_array().unwrap() {
                    let index = numbers(&probe[0]);
                    let flat = index.iter().zip(&shape).fold(0, |flat, (i, n)| flat * n + i);
                    assert_eq!(u64::from(cells[flat]), probe[1].as_u64().unwrap(), "{context}");
                }
                let expected = reading["sha256_c_order_le"].as_str().unwrap();
                assert_eq!(hash(&cells, dtype), expected, "{context}");
                n_hashes += 1;
            }
        }
        n_files += 1;
    }
    assert!(n_files >= 38 && n_hashes >= 2 * 60, "{n_files} files, {n_hashes} hashes");
}

#[test]
fn the_scan_shape_comes_from_the_sidecar_or_the_number_of_frames() {
    let Some(directory) = data_directory() else { return };
    let nav = |name: &str| {
        let path = directory.join("MIB").join(name);
        let by_data = open(&path, &OpenOptions::default()).unwrap();
        let by_sidecar = open(path.with_extension("hdr"), &OpenOptions::default()).unwrap();
        assert_eq!(by_data.shape(), by_sidecar.shape());
        assert_eq!(by_data.source().info().paths, by_sidecar.source().info().paths);
        by_data.shape().nav().to_vec()
    };
    let scan = "rosettasciio/Merlin_navigation4x2_signalNx256_ROI/\
                003_merlin_test_roi_sig256x64_nav4x2_hot_pixel_52x_39y.mib";
    assert_eq!(nav(scan), [2, 4], "ScanX and ScanY");
    let older = "rosettasciio/Merlin_navigation4x2_ROI/002_4x2_6bit_roi128.mib";
    assert_eq!(nav(older), [8], "one frame per trigger");
    let single = "read_mib/ROI/Single_9_Frames_CounterDepth_6_Rows_64.mib";
    assert_eq!(nav(single), [9], "one trigger");
    let square = "read_mib/ROI/Quad_9_Frames_CounterDepth_6_Rows_64.mib";
    assert_eq!(nav(square), [3, 3], "one frame per trigger, and a square");
}

/// How alike two images are: 1 for the same up to scale.
fn correlation(a: &[u32], b: &[u32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let n = a.len() as f64;
    let (mean_a, mean_b) = (sum(a) / n, sum(b) / n);
    let mut products = [0.0; 3];
    for (&a, &b) in a.iter().zip(b) {
        let (a, b) = (f64::from(a) - mean_a, f64::from(b) - mean_b);
        products = [products[0] + a * b, products[1] + a * a, products[2] + b * b];
    }
    products[0] / (products[1] * products[2]).sqrt()
}

/// No other reader knows raw frames of four chips with a region of interest. But the noise of a
/// sensor is a pattern of its pixels: the raw frame must look like the one that the detector
/// itself put together a moment later, and not when anything is turned or exchanged.
#[test]
fn raw_quad_frames_look_like_those_the_detector_assembled() {
    let Some(directory) = data_directory() else { return };
    for rows in [32, 64, 128] {
        let file = |end: &str| {
            let name = format!("MIB/read_mib/ROI/Quad_1_Frame_CounterDepth_1_Rows_{rows}{end}.mib");
            let dataset = open(directory.join(name), &alone()).unwrap();
            assert_eq!(dataset.shape().sig(), [2 * rows, 512]);
            read_all(&dataset)
        };
        let (raw, assembled) = (file("RAW"), file(""));
        for (half, (raw, assembled)) in
            raw.chunks(rows * 512).zip(assembled.chunks(rows * 512)).enumerate()
        {
            for columns in [0..256, 256..512] {
                let chip = |half: &[u32]| -> Vec<u32> {
                    half.chunks(512).flat_map(|row| row[columns.clone()].to_vec()).collect()
                };
                let (raw, assembled) = (chip(raw), chip(assembled));
                let alike = correlation(&raw, &assembled);
                assert!(alike > 0.95, "{rows} rows, half {half}, {columns:?}: {alike}");
                let turned: Vec<u32> = raw.iter().rev().copied().collect();
                assert!(correlation(&turned, &assembled) < 0.8, "the test tells nothing");
            }
        }
    }
}

//! Real files of many programs, against what h5py makes of them.
//!
//! `crate::real_files` says where they lie.

use crate::real_files::{data_directory, manifest};
use framefold_core::{DType, Dataset, FrameIndices, StoredDType, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect, open_as};
use framefold_testkit::check_source;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub fn entries() -> Vec<Value> {
    let by_h5py = |reading: &Value| reading["reader"].as_str().unwrap().starts_with("h5py");
    let known = |entry: &&Value| {
        entry["readings"].as_array().is_some_and(|readings| readings.iter().any(by_h5py))
    };
    manifest().into_iter().filter(|entry| known(&entry)).collect()
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// All frames, some at a time, in tiles of whole frames.
fn read_all(dataset: &Dataset) -> Vec<u8> {
    let info = dataset.source().info();
    let whole = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 3).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let mut bytes = vec![];
    let size = info.dtype.dtype.size();
    for start in (0..info.n_frames).step_by(3) {
        let end = (start + 3).min(info.n_frames);
        let tile = reader.read(FrameIndices::Run(start..end), &whole.slices()[0]).unwrap();
        let (len, stride) = (tile.frames().frame_len(), tile.frames().stride());
        let all = tile.frames().as_bytes();
        for frame in 0..tile.frames().depth() {
            bytes.extend(&all[frame * stride * size..(frame * stride + len) * size]);
        }
    }
    reader.verify().unwrap();
    bytes
}

/// Frames on the last axis, as Velox stores them.
fn frames_last(bytes: &[u8], n_frames: usize, size: usize) -> Vec<u8> {
    let n_cells = bytes.len() / size / n_frames;
    let cell = |i: usize| &bytes[i * size..(i + 1) * size];
    let all = (0..n_cells).flat_map(|c| (0..n_frames).map(move |f| f * n_cells + c));
    all.flat_map(cell).copied().collect()
}

/// Axes in the other order, as Delmic stores the positions, rows and columns of spectra.
fn reversed(bytes: &[u8], [n, rows, columns]: [usize; 3], size: usize) -> Vec<u8> {
    let cell = |i: usize| &bytes[i * size..(i + 1) * size];
    let rows_of =
        |c| (0..rows).flat_map(move |r| (0..n).map(move |f| (f * rows + r) * columns + c));
    (0..columns).flat_map(rows_of).flat_map(cell).copied().collect()
}

fn value(bytes: &[u8], dtype: DType) -> f64 {
    match dtype {
        DType::U8 => f64::from(bytes[0]),
        DType::I16 => f64::from(i16::from_ne_bytes(bytes.try_into().unwrap())),
        DType::U16 => f64::from(u16::from_ne_bytes(bytes.try_into().unwrap())),
        DType::I32 => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::U32 => f64::from(u32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::I64 => i64::from_ne_bytes(bytes.try_into().unwrap()) as f64,
        DType::U64 => u64::from_ne_bytes(bytes.try_into().unwrap()) as f64,
        DType::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        other => panic!("unexpected dtype {other}"),
    }
}

#[test]
fn every_data_set_of_every_file() {
    let Some(directory) = data_directory() else { return };
    let (mut n_files, mut n_hashes) = (0, 0);
    for entry in entries() {
        let name = entry["file"].as_str().unwrap();
        let path = directory.join(name);
        assert_eq!(detect(&path).unwrap().format.name, "hdf5", "{name}");
        for reading in entry["readings"].as_array().unwrap() {
            let Some(named) = reading["dataset"].as_str() else { continue };
            let context = format!("{name} {named}");
            let shape = numbers(&reading["shape"]);
            for backend in [Backend::Mmap, Backend::Buffered] {
                let ds_path = Some(named.to_owned());
                let options =
                    OpenOptions { backend, ..OpenOptions::default() }.with_some("ds_path", ds_path);
                let dataset = open_as("hdf5", &path, &options).unwrap();
                let info = dataset.source().info();
                let velox = named.starts_with("/Data/Image/") && shape.len() == 3;
                let nav = if velox { &shape[2..] } else { &shape[..shape.len() - 2] };
                let nav = if nav.is_empty() { &[1] } else { nav };
                let sig = if velox { &shape[..2] } else { &shape[shape.len() - 2..] };
                let delmic = name.starts_with("DELMIC/") && shape.len() == 5 && shape[0] > 1;
                let spectra: Vec<usize> =
                    [shape[1], shape[0]].into_iter().filter(|&n| delmic && n > 1).collect();
                let (nav, sig) =
                    if delmic { (&shape[3..], spectra.as_slice()) } else { (nav, sig) };
                assert_eq!((info.nav_shape.as_slice(), info.sig_shape.as_slice()), (nav, sig));
                let expected = StoredDType::parse(reading["dtype"].as_str().unwrap()).unwrap();
                assert_eq!(info.dtype.dtype, expected.dtype, "{context}");
                check_source(dataset.source().as_ref()).unwrap();

                let size = expected.dtype.size();
                let mut bytes = read_all(&dataset);
                if velox {
                    bytes = frames_last(&bytes, shape[2], size);
                } else if delmic {
                    bytes = reversed(&bytes, [shape[3] * shape[4], shape[1], shape[0]], size);
                }
                let values = bytes.chunks(size).map(|bytes| value(bytes, expected.dtype));
                let sum: f64 = values.clone().sum();
                // What is no number is not one in JSON, either.
                let wanted = reading["sum_f64"].as_f64().unwrap_or(f64::NAN);
                let near = (sum - wanted).abs() <= 1e-9 * wanted.abs();
                assert!(near || sum.is_nan() && wanted.is_nan(), "{context}: {sum} {wanted}");
                let least = values.clone().fold(f64::INFINITY, f64::min);
                let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
                // Numbers in JSON may lose their last bit here; the hash does not.
                let same = |found: f64, expected: &Value| {
                    let expected = expected.as_f64().unwrap();
                    let near = (found - expected).abs() <= 1e-12 * expected.abs();
                    assert!(near, "{context}: {found} {expected}");
                };
                if !sum.is_nan() {
                    same(least, &reading["min"]);
                    same(most, &reading["max"]);
                }
                for probe in reading["probes"].as_array().unwrap() {
                    let flat =
                        numbers(&probe[0]).iter().zip(&shape).fold(0, |at, (i, n)| at * n + i);
                    let found = value(&bytes[flat * size..(flat + 1) * size], expected.dtype);
                    if !found.is_nan() {
                        same(found, &probe[1]);
                    }
                }
                let hash: String =
                    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(Some(hash.as_str()), reading["sha256_c_order_le"].as_str(), "{context}");
                n_hashes += 1;
            }
        }
        n_files += 1;
    }
    assert!(n_files >= 26 && n_hashes >= 2 * 60, "{n_files} files, {n_hashes} hashes");
}

#[test]
fn what_is_taken_without_a_name() {
    let Some(directory) = data_directory() else { return };
    let open = |name: &str| open_as("auto", directory.join(name), &OpenOptions::default());
    let detail = |dataset: &Dataset, key: &str| {
        let details = &dataset.source().info().details;
        details.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    for (name, shape, dialect) in [
        ("DELMIC/rosettasciio/sparc-angle-resolved.h5", "(3, 2) + (256, 256)", "Delmic"),
        ("DELMIC/rosettasciio/sparc-e-k.h5", "(2, 3) + (135, 160)", "Delmic"),
        ("DELMIC/rosettasciio/sparc-hyperspectral.h5", "(3, 2) + (128,)", "Delmic"),
        ("DECTRIS_HDF5/rosettasciio/test_00_master.h5", "(4, 4) + (192, 192)", "DECTRIS"),
        ("EMD/rosettasciio/py4DSTEM_size2x3x4x5.h5", "(2, 3) + (4, 5)", "py4DSTEM"),
        ("EMD/rosettasciio/fei_example_tem_stack.emd", "(2,) + (3, 3)", "Velox"),
        ("FPD_HDF5/pyxem/fpd_file_test.hdf5", "(2, 2, 1) + (256, 256)", "EMD"),
        ("FPD_HDF5/pyxem/pixelated_stem_test.hdf5", "(5, 2) + (3, 4)", "HyperSpy"),
        ("HDF5/LiberTEM/hdf5_sample.h5", "(16, 16) + (16, 16)", "plain"),
        ("HSPY/rosettasciio/example2_v2.2.hspy", "(1,) + (10, 10)", "HyperSpy"),
        ("NXS/rosettasciio/simple_signal.nxs", "(15, 1) + (40, 40)", "plain"),
    ] {
        let dataset = open(name).unwrap();
        assert_eq!(dataset.shape().to_string(), shape, "{name}");
        assert_eq!(detail(&dataset, "HDF5 dialect").as_deref(), Some(dialect), "{name}");
    }
    // The files that hold the frames are not there.
    let error = open("DECTRIS_HDF5/openNCEM/au_145mm_68kx_microprobe_01_master.h5").unwrap_err();
    assert!(error.to_string().contains("au_145mm_68kx_microprobe_01_data_000001.h5"), "{error}");
    // Images only: the first one, and the others are listed.
    let image = open("DECTRIS_HDF5/openNCEM/au_145mm_68kx_microprobe_01.h5").unwrap();
    assert_eq!(image.shape().to_string(), "(1,) + (64, 64)");
    assert!(detail(&image, "data set").is_some_and(|name| name.contains("[BF]")));
    let others = detail(&image, "other data sets").unwrap_or_default();
    assert!(others.contains("[HAADF]") && others.contains("[Virtual01]"), "{others}");
}

/// Steps, dates and times are those that rosettasciio reads; the rest is as the JSON spells it.
#[test]
fn velox_tells_of_the_experiment() {
    let Some(directory) = data_directory() else { return };
    let facts = |name: &str| -> Vec<String> {
        let path = directory.join("EMD").join(name);
        let dataset = open_as("hdf5", &path, &OpenOptions::default()).unwrap();
        let list = dataset.source().info().metadata.iter();
        list.map(|fact| format!("{} {fact}", fact.quantity.name())).collect()
    };
    let expected = [
        "scan_rotation 18.2 deg",
        "acceleration_voltage 300 kV",
        "camera_length 301 mm",
        "magnification 7100",
        "frame_time 0.24706 s",
        "image_step_x 87.3708 nm",
        "image_step_y 87.3708 nm",
        "image_offset_x -5591.731 nm",
        "image_offset_y -5591.731 nm",
        "stage_x 0.57681 µm",
        "stage_y 0.01377 µm",
        "stage_z -0.06879 µm",
        "stage_alpha -0.0001796796 deg",
        "stage_beta 0.03398316 deg",
        "detector HAADF",
        "microscope Titan",
        "recorded_at 2020-07-29T16:49:34Z",
        "scan_axes time",
    ];
    assert_eq!(facts("openNCEM/STEM HAADF Diffraction Micro.emd"), expected);
    // Of a camera, with a column of JSON for each of two frames.
    let stack = facts("rosettasciio/fei_example_tem_stack.emd");
    for fact in [
        "magnification 1271519",
        "defocus 30.2317 nm",
        "convergence_angle 11.41121 mrad",
        "exposure_time 0.8 s",
        "image_step_x 0.008172883 nm",
        "binning_y 1",
        "detector BM-Ceta",
        "recorded_at 2019-12-05T10:03:44Z",
    ] {
        assert!(stack.iter().any(|found| found == fact), "{fact}: {stack:#?}");
    }
    assert!(!stack.iter().any(|found| found.starts_with("camera_length")), "{stack:#?}");
}

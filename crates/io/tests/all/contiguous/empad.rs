//! EMPAD files.

use crate::contiguous::{check, frames, hostile, plain};
use crate::oracle::{Frames, any_questions};
use framefold_core::{DType, ErrorKind, MetadataValue, Quantity};
use framefold_io::{OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const FOOTER: usize = 1024;

fn raw(frames: &Frames) -> Vec<u8> {
    let noise = |frame: usize| vec![u8::try_from(frame + 1).unwrap(); FOOTER];
    (0..frames.n_frames).flat_map(|i| [frames.frame(i).to_vec(), noise(i)].concat()).collect()
}

/// A recording: the path of its XML file.
fn write(dir: &Path, frames: &Frames, inner: &str) -> PathBuf {
    std::fs::write(dir.join("scan.raw"), raw(frames)).unwrap();
    let path = dir.join("scan.xml");
    let text = format!(
        "<root name=\"acquisition_1\"><timestamp isoformat=\"2019-06-06T13:30:00\"/>\
         <raw_file filename=\"C:\\data\\scan.raw\"/><exposure_time>1</exposure_time>{inner}\
         <iom_measurements><optics.get_cameralength>0.7225</optics.get_cameralength>\
         <source.get_voltage>300000.0</source.get_voltage></iom_measurements></root>"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn scan(rows: usize, columns: usize) -> String {
    format!(
        "<scan_parameters mode=\"acquire\"><scan_resolution_x>{columns}</scan_resolution_x>\
         <scan_resolution_y>{rows}</scan_resolution_y></scan_parameters>"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn equals_what_was_written(
        (rows, columns) in (1usize..4, 1usize..4),
        seed in any::<u64>(),
        ask in any_questions(),
        tile in prop::collection::vec(20usize..128, 2),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let frames = Frames::random(DType::F32.into(), rows * columns, &[128, 128], seed);
        let path = write(dir.path(), &frames, &scan(rows, columns));
        let ask = crate::oracle::Questions { tile_shape: tile, ..ask };
        check("empad", &path, &frames, &ask, true);
        let dataset = plain("empad", &path).unwrap();
        prop_assert_eq!(dataset.shape().nav(), [rows, columns]);
    }
}

#[test]
fn the_xml_file_tells_about_the_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), &frames(DType::F32, 6, &[128, 128]), &scan(2, 3));
    assert_eq!(detect(&path).unwrap().format.name, "empad");
    let dataset = plain("auto", &path).unwrap();
    let facts = &dataset.source().info().metadata;
    for (quantity, value) in [
        (Quantity::ExposureTime, 0.001),
        (Quantity::AccelerationVoltage, 300.0),
        (Quantity::CameraLength, 722.5),
    ] {
        assert_eq!(facts.get(quantity), Some(&MetadataValue::Number(value)), "{quantity:?}");
    }
    let time = MetadataValue::Text("2019-06-06T13:30:00".to_owned());
    assert_eq!(facts.get(Quantity::RecordedAt), Some(&time));
    let angle = "<iom_measurements><calibrated_diffraction_angle>0.002\
                 </calibrated_diffraction_angle></iom_measurements>";
    let path = write(dir.path(), &frames(DType::F32, 6, &[128, 128]), &(scan(2, 3) + angle));
    for (sig_shape, step) in [(None, Some(2.0)), (Some(vec![64, 256]), None)] {
        let options = OpenOptions { sig_shape, ..OpenOptions::default() };
        let dataset = open_as("empad", &path, &options).unwrap();
        assert_eq!(dataset.metadata().get_number(Quantity::AngleStepX), step);
    }
}

#[test]
fn raw_files_cut_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::F32, 2, &[128, 128]);
    let xml = write(dir.path(), &frames, &scan(1, 2));
    let raw = dir.path().join("scan.raw");
    let whole = std::fs::read(&raw).unwrap();
    for len in (0..whole.len()).step_by(37 * 37).chain([65_535, 65_536, 132_095, 132_096]) {
        std::fs::write(&raw, &whole[..len]).unwrap();
        // The last frame lacks nothing that counts if only its footer is cut.
        let n_frames = usize::from(len >= 65_536) + usize::from(len >= 66_560 + 65_536);
        for path in [&xml, &raw] {
            match plain("empad", path) {
                Ok(dataset) => {
                    let read = crate::contiguous::read_all(&dataset).unwrap();
                    assert_eq!(read.len(), n_frames, "{len}");
                    assert!(read.iter().enumerate().all(|(i, (_, b))| b == frames.frame(i)));
                }
                Err(error) => {
                    assert_eq!((error.kind(), n_frames), (ErrorKind::BadFile, 0), "{len}: {error}");
                    assert_eq!(error.path(), Some(raw.as_path()), "{error}");
                }
            }
        }
    }
}

#[test]
fn xml_files_cut_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), &frames(DType::F32, 2, &[128, 128]), &scan(1, 2));
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = plain("empad", &path).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(path.as_path())));
    }
    std::fs::write(&path, &whole).unwrap();
    hostile::lie_everywhere("empad", &path, 200);
}

#[test]
fn series_and_scans_that_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::F32, 4, &[128, 128]);
    let nav = |inner: &str| {
        let dataset = plain("empad", &write(dir.path(), &frames, inner)).unwrap();
        let n_warnings = dataset.source().info().warnings.len();
        (dataset.shape().nav().to_vec(), n_warnings)
    };
    assert_eq!(nav("<type>series</type><count>4</count>"), (vec![4], 0));
    assert_eq!(nav(&scan(1, 4)), (vec![1, 4], 0));
    assert_eq!(nav(&scan(2, 3)), (vec![2, 3], 1));
    assert_eq!(nav(&scan(1, 3)), (vec![2, 2], 1));
    assert_eq!(nav(""), (vec![2, 2], 0));
    let options = OpenOptions { nav_shape: Some(vec![4]), ..OpenOptions::default() };
    let path = write(dir.path(), &frames, &scan(2, 3));
    let dataset = open_as("empad", &path, &options).unwrap();
    assert_eq!((dataset.shape().nav(), dataset.source().info().warnings.len()), (&[4][..], 0));
}

#[test]
fn raw_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &frames(DType::F32, 6, &[128, 128]), "");
    let named = dir.path().join("scan_x3_y2.raw");
    std::fs::rename(dir.path().join("scan.raw"), &named).unwrap();
    assert_eq!(plain("empad", &named).unwrap().shape().nav(), [2, 3]);
    for (name, nav, warning) in [
        ("scan_x4_y2.raw", &[2, 4][..], "[2, 4] has 8 positions for 6 frames; the last 2"),
        ("scan_x2_y2.raw", &[6], "of [2, 2], which 6 frames do not fit"),
        ("scan_x0_y2.raw", &[6], ""),
        ("scan_x99999_y9.raw", &[6], "which 6 frames do not fit"),
    ] {
        let path = dir.path().join(name);
        std::fs::hard_link(&named, &path).unwrap();
        let dataset = plain("empad", &path).unwrap();
        assert_eq!(dataset.shape().nav(), nav, "{name}");
        let warnings = dataset.warnings().join(" ");
        assert!(warnings.contains(warning) && warnings.is_empty() == warning.is_empty(), "{name}");
    }
    let error = plain("auto", &named).unwrap_err();
    assert!(error.to_string().contains("size of 6 frames, but no signature"), "{error}");
    let error = plain("empad", &dir.path().join("scan.xml")).unwrap_err();
    assert!(error.to_string().contains("no file 'scan.raw' beside it"), "{error}");
}

//! Random series, in every type of pixel, against a plain array.

use crate::oracle::{Frames, all, any_questions, check};
use crate::ser::writer::{DTYPES, Series};
use framefold_core::{ByteOrder, Dataset, ErrorKind, MetadataValue, Quantity, Result, StoredDType};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use framefold_testkit::check_source;
use proptest::prelude::*;

/// Opens a file of these bytes, as a series.
pub fn open_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Dataset> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan_1.ser");
    std::fs::write(&path, bytes).unwrap();
    open_as("ser", &path, options)
}

pub fn some_frames(code: usize, n_frames: usize, sig_shape: &[usize]) -> Frames {
    let stored = StoredDType { dtype: DTYPES[code], order: ByteOrder::Little };
    Frames::random(stored, n_frames, sig_shape, 7)
}

proptest! {
    #[test]
    fn equals_the_oracle(
        code in 0usize..10,
        n_frames in 1usize..9,
        sig in prop::collection::vec(1usize..6, 1..3),
        ask in any_questions(),
        long in any::<bool>(),
        gaps in prop::collection::vec(0usize..20, 1..4),
        n_more in 0usize..3,
    ) {
        let frames = some_frames(code, n_frames, &sig);
        let n_planned = n_frames + n_more;
        let series = Series { long, n_planned, axes: vec![n_planned], gaps };
        let bytes = series.write(&frames);
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open_bytes(&bytes, &options).unwrap();
            prop_assert_eq!(dataset.shape().nav(), &[n_planned]);
            prop_assert!(dataset.positions_with_data().into_iter().flatten().eq(0..n_frames));
            let info = dataset.source().info();
            prop_assert_eq!(info.warnings.len(), usize::from(n_more > 0));
            prop_assert_eq!(info.paths.len(), 1);
            check(dataset.source().as_ref(), &frames, &all(n_frames), &ask);
            check_source(dataset.source().as_ref()).unwrap();
        }
    }

    /// The same cells in another shape.
    #[test]
    fn frames_of_another_shape(ask in any_questions(), shape in 0usize..3) {
        let frames = some_frames(1, 3, &[4, 6]);
        let sig_shape = [vec![24], vec![3, 8], vec![2, 2, 6]][shape].clone();
        let options = OpenOptions { sig_shape: Some(sig_shape.clone()), ..OpenOptions::default() };
        let dataset = open_bytes(&Series::of(&frames).write(&frames), &options).unwrap();
        check(dataset.source().as_ref(), &Frames { sig_shape, ..frames }, &all(3), &ask);
    }
}

#[test]
fn scan_shapes() {
    let frames = some_frames(1, 6, &[2, 2]);
    let shape = |axes: &[usize], n_planned| {
        let series = Series { axes: axes.to_vec(), n_planned, ..Series::of(&frames) };
        let dataset = open_bytes(&series.write(&frames), &OpenOptions::default()).unwrap();
        dataset.shape().nav().to_vec()
    };
    assert_eq!(shape(&[3, 2], 6), [2, 3]);
    assert_eq!(shape(&[4, 2], 8), [2, 4]);
    // Axes that do not fit the number of elements.
    assert_eq!(shape(&[5], 6), [6]);
    assert_eq!(shape(&[1000, 1000], 6), [6]);
    assert_eq!(shape(&[], 6), [6]);
    let options =
        OpenOptions { nav_shape: Some(vec![2, 4]), sync_offset: 2, ..OpenOptions::default() };
    let dataset = open_bytes(&Series::of(&frames).write(&frames), &options).unwrap();
    assert!(dataset.positions_with_data().into_iter().flatten().eq(0..4));
    let options = OpenOptions { sig_shape: Some(vec![5]), ..OpenOptions::default() };
    let error = open_bytes(&Series::of(&frames).write(&frames), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn frames_of_another_shape_leave_the_steps_of_the_scan() {
    let frames = some_frames(1, 6, &[4, 6]);
    let bytes = Series { axes: vec![3, 2], ..Series::of(&frames) }.write(&frames);
    let options = OpenOptions { sig_shape: Some(vec![24]), ..OpenOptions::default() };
    let dataset = open_bytes(&bytes, &options).unwrap();
    let axes = framefold_core::axes(&[2, 3], &[24], &dataset.source().info().metadata);
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    assert_eq!(axes, ["scan_y: 2 × 2.5 nm", "scan_x: 3 × 2.5 nm", "channel: 24"]);
}

#[test]
fn meta_data_come_from_the_emi_file() {
    let dir = tempfile::tempdir().unwrap();
    let frames = some_frames(1, 2, &[2, 2]);
    let bytes = Series::of(&frames).write(&frames);
    let (first, second) = (dir.path().join("scan_1.ser"), dir.path().join("scan_2.ser"));
    let emi = dir.path().join("scan.emi");
    let other = dir.path().join("other.emi");
    std::fs::write(&first, &bytes).unwrap();
    let voltage = |path: &std::path::Path, options: &OpenOptions| {
        let dataset = open(path, options).unwrap();
        let found = dataset.source().info().metadata.get(Quantity::AccelerationVoltage).cloned();
        (found, dataset.source().info().warnings.len())
    };
    let default = OpenOptions::default();
    assert_eq!(voltage(&first, &default), (None, 0));
    let text = |kv: u32| {
        format!(
            "JK\0\x02...<ObjectInfo><Data><Label>High tension</Label><Value>{kv}</Value>\
             <Unit>kV</Unit></Data></ObjectInfo>..."
        )
    };
    std::fs::write(&emi, text(200)).unwrap();
    std::fs::write(&other, text(300)).unwrap();
    let number = |n: f64| Some(MetadataValue::Number(n));
    assert_eq!(voltage(&first, &default), (number(200.0), 0));
    let named = OpenOptions::default().with("emipath", other.clone());
    assert_eq!(voltage(&first, &named), (number(300.0), 0));
    // The .emi file itself opens the first of its series.
    assert_eq!(detect(&emi).unwrap().format.name, "ser");
    assert_eq!(voltage(&emi, &default), (number(200.0), 0));
    std::fs::write(&second, &bytes).unwrap();
    assert_eq!(voltage(&emi, &default), (number(200.0), 1));
    let error = open(&other, &default).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("_1.ser"), "{error}");
    // A file that is not what it should be: an error if it was asked for, otherwise a warning.
    std::fs::write(&emi, "nothing").unwrap();
    assert_eq!(voltage(&first, &default), (None, 1));
    let named = OpenOptions::default().with("emipath", emi);
    assert_eq!(open(&first, &named).unwrap_err().kind(), ErrorKind::BadFile);
    let named = OpenOptions::default().with("emipath", dir.path().join("none"));
    assert_eq!(open(&first, &named).unwrap_err().kind(), ErrorKind::Io);
}

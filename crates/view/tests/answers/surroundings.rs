//! What a viewer tells of its data, functions of the session, and files that do not stay as they are.

use crate::cases::{answers, case, exact};
use framefold::core::{
    Corrections, DType, DataSource, FrameReader, MetadataList, Quantity, SourceInfo,
};
use framefold::{Cancel, Error, OpenOptions, Result};
use framefold_view::{
    Own, OwnFunction, PatternChannel, PatternQuery, Picture, Query, ScanChannel, ScanQuery, State,
    Transform, Viewer, ViewerOptions, Wish,
};
use std::path::Path;
use std::sync::Arc;

#[test]
fn descriptions() {
    let viewer = case(4, DType::U16, &[3, 4], &[6, 9]).viewer;
    let described = viewer.describe();
    assert_eq!((described.n_missing, described.dtype.as_str()), (2, "uint16"));
    assert_eq!(described.nav.iter().map(|axis| axis.size).collect::<Vec<_>>(), [3, 4]);
    assert!(described.suggested_shapes.is_empty() && described.excluded.is_empty());

    let dataset = case(3, DType::U16, &[36], &[6, 9]).viewer.dataset().clone();
    let corrections = Corrections::try_new(&[6, 9], None, None, vec![40, 3], false).unwrap();
    let dataset = dataset.with_corrections(Some(Arc::new(corrections))).unwrap();
    let viewer = Viewer::try_new("line".into(), dataset, ViewerOptions::default()).unwrap();
    let described = viewer.describe();
    assert_eq!(described.excluded, [3, 40]);
    assert_eq!(described.dtype, "float32");
    assert_eq!(described.suggested_shapes[0], [6, 6]);
    assert_eq!(described.warnings, ["corrections are applied: 2 excluded pixels"]);
}

/// They are counted, where a list would be longer than most pictures.
#[test]
fn very_many_bad_pixels_are_not_listed_one_by_one() {
    let array = framefold::core::NativeArray::zeros(DType::U8, &[1, 600, 600]);
    let source = framefold_testkit::MemorySource::try_new(array, Default::default()).unwrap();
    let dataset = framefold::Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let described = |n| {
        let bad = (0..n).map(|pixel| 2 * pixel).collect();
        let corrections = Corrections::try_new(&[600, 600], None, None, bad, false).unwrap();
        let dataset = dataset.clone().with_corrections(Some(Arc::new(corrections))).unwrap();
        Viewer::try_new("bad".into(), dataset, ViewerOptions::default()).unwrap().describe()
    };
    assert_eq!((described(65_536).excluded.len(), described(65_536).warnings.len()), (65_536, 1));
    let many = described(65_537);
    assert!(many.excluded.is_empty());
    assert!(many.warnings[0].contains("65537 bad pixels"), "{:?}", many.warnings);
}

/// Frames of another source, whose file says more about itself.
#[derive(Debug)]
struct Known(Arc<dyn DataSource>, SourceInfo);

impl DataSource for Known {
    fn info(&self) -> &SourceInfo {
        &self.1
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        self.0.reader()
    }
}

/// A step that a user gave says nothing of the shape.
#[test]
fn a_file_that_says_where_its_positions_lie_is_a_line() {
    let plain = case(3, DType::U16, &[36], &[6, 9]).viewer.dataset().clone();
    let mut metadata = MetadataList::new();
    metadata.number(Quantity::ScanStepX, 0.5);
    let mut info = plain.source().info().clone();
    info.metadata = metadata.clone();
    let known = Arc::new(Known(plain.source().clone(), info));
    let known = framefold::Dataset::try_new(known, None, 0).unwrap();
    let n_suggested = |dataset| {
        let viewer = Viewer::try_new("line".into(), dataset, ViewerOptions::default()).unwrap();
        let described = viewer.describe();
        (described.nav[0].scale, described.suggested_shapes.len())
    };
    assert_eq!(n_suggested(known), (0.5, 0));
    let (step, n) = n_suggested(plain.with_metadata(metadata));
    assert!(step == 0.5 && n > 0, "{step} {n}");
}

#[test]
fn frames_of_three_axes_are_refused() {
    let dataset = case(3, DType::U16, &[6], &[54]).viewer.dataset().clone();
    let array = framefold::core::NativeArray::zeros(DType::U8, &[4, 2, 3, 3]);
    let source = framefold_testkit::MemorySource::try_new(array, Default::default()).unwrap();
    let many = framefold::Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let error = Viewer::try_new("deep".into(), many, ViewerOptions::default()).unwrap_err();
    assert!(error.to_string().contains("frames of shape [2, 3, 3] cannot be shown"), "{error}");
    assert!(Viewer::try_new("line".into(), dataset, ViewerOptions::default()).is_ok());
}

#[test]
fn complex_frames_are_refused_in_words() {
    let array = framefold::core::NativeArray::zeros(DType::C64, &[4, 3, 3]);
    let source = framefold_testkit::MemorySource::try_new(array, Default::default()).unwrap();
    let dataset = framefold::Dataset::try_new(Arc::new(source), None, 0).unwrap();
    // Nothing could be shown.
    let made = Viewer::try_new("waves".into(), dataset.clone(), ViewerOptions::default());
    let error = made.unwrap_err().to_string();
    assert!(error.contains("complex64") && error.contains("ff.Transform"), "{error}");
    let options = ViewerOptions { own: Some(Arc::new(Counting)), ..Default::default() };
    let viewer = Viewer::try_new("waves".into(), dataset, options).unwrap();
    for query in [Query::Scan(ScanQuery::default()), Query::Pattern(PatternQuery::default())] {
        let error = exact(&viewer, &query).unwrap_err();
        assert!(error.to_string().contains("frames of complex64 are not shown"), "{error}");
    }
}

/// A function whose picture is the number of its scan position.
struct Counting;

impl Own for Counting {
    fn describe(&self) -> Vec<OwnFunction> {
        vec![OwnFunction {
            name: "count".into(),
            nav: vec!["number".into()],
            sig: vec!["pixel".into()],
        }]
    }

    fn run(
        &self,
        name: &str,
        buffer: &str,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()> {
        cancel.check()?;
        if name != "count" {
            return Err(Error::bug("asked for another one"));
        }
        let shape = if buffer == "number" { vec![3, 4] } else { vec![6, 9] };
        let n: usize = shape.iter().product();
        emit(Picture {
            planes: vec!["value".into()],
            shape,
            values: (0..n).map(|i| i as f64).collect(),
            stride: [1, 1],
            state: State::Exact,
            label: "exact".into(),
            progress: 1.0,
            axes: None,
        })
    }
}

#[test]
fn functions_of_the_session_are_channels() {
    let dataset = case(3, DType::U16, &[3, 4], &[6, 9]).viewer.dataset().clone();
    let options = ViewerOptions { own: Some(Arc::new(Counting)), ..Default::default() };
    let viewer = Viewer::try_new("own".into(), dataset, options).unwrap();
    assert_eq!(viewer.describe().own[0].name, "count");
    let scan = |name: &str, buffer: &str, transform| {
        let channel = ScanChannel::Own { name: name.into(), buffer: buffer.into() };
        exact(&viewer, &Query::Scan(ScanQuery { channel, transform, ..Default::default() }))
    };
    let picture = scan("count", "number", Transform::None).unwrap();
    assert_eq!(picture.values, (0..12).map(f64::from).collect::<Vec<_>>());
    let spectrum = scan("count", "number", Transform::Fft).unwrap();
    // The sum, in the middle.
    assert!((spectrum.values[4 + 2] - 66.0).abs() < 1e-9);
    assert!(spectrum.axes.is_some());
    let text = scan("other", "number", Transform::None).unwrap_err().to_string();
    assert!(text.contains("no function 'other'") && text.contains("count"), "{text}");
    let text = scan("count", "pixel", Transform::None).unwrap_err().to_string();
    assert!(text.contains("no result 'pixel' that is a picture here"), "{text}");
    let channel = PatternChannel::Own { name: "count".into(), buffer: "pixel".into() };
    let query = Query::Pattern(PatternQuery { channel, ..Default::default() });
    assert_eq!(exact(&viewer, &query).unwrap().shape, [6, 9]);
}

/// An NPY file of 12 × 12 frames of 16 × 16 uint16, all of that value.
fn write(path: &Path, value: u16, n_frames: usize) {
    let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (12, 12, 16, 16), }";
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    bytes.extend(value.to_le_bytes().repeat(n_frames * 256));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn files_that_change_or_vanish() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.npy");
    write(&path, 3, 144);
    let dataset = framefold::open(&path, &OpenOptions::default()).unwrap();
    let viewer = Viewer::try_new("scan".into(), dataset, ViewerOptions::default()).unwrap();
    let query = Query::Scan(ScanQuery::default());
    assert_eq!(exact(&viewer, &query).unwrap().values, vec![768.0; 144]);
    assert!(viewer.is_unchanged());
    // Cut in the middle: an error that names the file, and not what was seen before.
    write(&path, 3, 70);
    assert!(!viewer.is_unchanged());
    let error = exact(&viewer, &query).unwrap_err();
    assert!(error.to_string().contains("scan.npy"), "{error}");
    let pattern = Query::Pattern(PatternQuery::default());
    assert!(answers(&viewer, &pattern, Wish::Fast).is_err());
    // It is there again: so are answers, if the reader takes it for the same, and words otherwise.
    write(&path, 5, 144);
    match exact(&viewer, &query) {
        Ok(picture) => assert_eq!(picture.values, vec![1280.0; 144]),
        Err(error) => assert!(error.to_string().contains("scan.npy"), "{error}"),
    }
    std::fs::remove_file(&path).unwrap();
    assert!(!viewer.is_unchanged());
    let _ = exact(&viewer, &query);
}

#[test]
fn what_was_computed_of_a_file_that_grows_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.npy");
    write(&path, 3, 70);
    let dataset = framefold::open(&path, &OpenOptions::default()).unwrap();
    let viewer = Viewer::try_new("live".into(), dataset, ViewerOptions::default()).unwrap();
    let query = Query::Scan(ScanQuery::default());
    let check = |values: &[f64]| {
        assert_eq!(values[..70], [768.0; 70]);
        assert!(values[70..].iter().all(|value| value.is_nan()));
    };
    check(&exact(&viewer, &query).unwrap().values);
    let kept = viewer.len_bytes();
    assert!(kept > 0);
    let more = |value: u16, n: usize| {
        let file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut &file, &value.to_le_bytes().repeat(n * 256)).unwrap();
    };
    more(9, 30);
    assert!(!viewer.is_unchanged());
    check(&answers(&viewer, &query, Wish::Fast).unwrap().pop().unwrap().values);
    assert_eq!(viewer.len_bytes(), kept);
    // Written anew, and longer than it was: nothing of what was there.
    write(&path, 4, 120);
    let _ = answers(&viewer, &query, Wish::Fast);
    match exact(&viewer, &query) {
        Ok(picture) => assert_eq!(picture.values[..70], [1024.0; 70]),
        Err(error) => assert!(error.to_string().contains("live.npy"), "{error}"),
    }
}

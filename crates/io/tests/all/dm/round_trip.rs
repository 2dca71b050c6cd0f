//! Random images, in every type of pixel and either order of axes, against a plain array.

use crate::dm::writer::{Image, file, knows};
use crate::oracle::{Frames, all, any_frames, any_questions, check};
use framefold_core::{
    ByteOrder, DType, Dataset, ErrorKind, MetadataValue, Quantity, Result, StoredDType,
};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use framefold_testkit::check_source;
use proptest::prelude::*;

/// Opens a file of these bytes, as a DM file.
pub fn open_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Dataset> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.dm4");
    std::fs::write(&path, bytes).unwrap();
    open_as("dm", &path, options)
}

fn backends() -> [OpenOptions; 2] {
    [Backend::Mmap, Backend::Buffered]
        .map(|backend| OpenOptions { backend, ..OpenOptions::default() })
}

/// The frames with their axes in the order detector, scan.
pub fn transposed(frames: &Frames) -> Vec<u8> {
    let (size, cells) = (frames.size(), frames.cells());
    (0..cells)
        .flat_map(|cell| (0..frames.n_frames).map(move |frame| frame * cells + cell))
        .flat_map(|flat| frames.bytes[flat * size..][..size].to_vec())
        .collect()
}

/// Frames of two axes in a dtype of the format; the order of bytes is that of the file.
fn any_images() -> impl Strategy<Value = Frames> {
    let known = any_frames().prop_filter("a dtype of the format", |f| knows(f.stored.dtype));
    known.prop_map(|mut frames| {
        frames.sig_shape.resize(2, 3);
        Frames::random(frames.stored, frames.n_frames, &frames.sig_shape, 11)
    })
}

proptest! {
    #[test]
    fn equals_the_oracle(
        frames in any_images(),
        ask in any_questions(),
        version in 3u32..5,
        n_axes in 3usize..5,
        swapped in prop::option::of(any::<bool>()),
        thumbnail in any::<bool>(),
    ) {
        let [rows, columns] = frames.sig_shape[..] else { unreachable!() };
        let nav = match (n_axes, frames.n_frames % 2) {
            (4, 0) => vec![frames.n_frames / 2, 2],
            (4, _) => vec![frames.n_frames, 1],
            _ => vec![frames.n_frames],
        };
        // What the tag says, or else what is usual for as many axes.
        let frames_together = swapped.unwrap_or(n_axes == 3);
        let (slow, fast, bytes) = if frames_together {
            (nav.clone(), vec![rows, columns], frames.bytes.clone())
        } else {
            (vec![rows, columns], nav.clone(), transposed(&frames))
        };
        let lengths: Vec<usize> = slow.iter().chain(&fast).rev().copied().collect();
        let image = Image { swapped, ..Image::new(frames.stored, &lengths, &bytes) };
        let picture = Image::new(DType::U8.into(), &[2, 3], &[9; 6]);
        let images = if thumbnail { vec![picture, image] } else { vec![image] };
        let bytes = file(version, frames.stored.order, &images, usize::from(thumbnail));
        for options in backends() {
            let dataset = open_bytes(&bytes, &options).unwrap();
            prop_assert_eq!(dataset.shape().nav(), &nav);
            let info = dataset.source().info();
            let doubtful = swapped.is_none() && n_axes == 4;
            prop_assert_eq!(info.warnings.len(), usize::from(doubtful), "{:?}", info.warnings);
            check(dataset.source().as_ref(), &frames, &all(frames.n_frames), &ask);
            check_source(dataset.source().as_ref()).unwrap();
        }
    }

    /// Frames of another shape are cut from the scan, however the axes lie.
    #[test]
    fn frames_of_another_shape(n_frames in 1usize..5, together in any::<bool>(), ask in any_questions()) {
        let as_written = Frames::random(DType::U16.into(), n_frames, &[4, 6], 3);
        let bytes = if together { as_written.bytes.clone() } else { transposed(&as_written) };
        let lengths = if together { [6, 4, n_frames, 1] } else { [n_frames, 1, 6, 4] };
        let image =
            Image { swapped: Some(together), ..Image::new(as_written.stored, &lengths, &bytes) };
        let bytes = file(4, ByteOrder::Little, &[image], 0);
        let cut = Frames { n_frames: 2 * n_frames, sig_shape: vec![12], ..as_written };
        let options = OpenOptions { sig_shape: Some(vec![12]), ..OpenOptions::default() };
        let dataset = open_bytes(&bytes, &options).unwrap();
        check(dataset.source().as_ref(), &cut, &all(2 * n_frames), &ask);
    }
}

fn counting(n: usize) -> Vec<u8> {
    (0..n as u16).flat_map(u16::to_le_bytes).collect()
}

const U16: StoredDType = StoredDType { dtype: DType::U16, order: ByteOrder::Little };

#[test]
fn shapes_follow_from_axes_and_tags() {
    let shape = |lengths: &[usize], format, swapped, force_c_order| {
        let bytes = counting(lengths.iter().product());
        let image = Image { format, swapped, ..Image::new(U16, lengths, &bytes) };
        let bytes = file(4, ByteOrder::Little, &[image], 0);
        let options = OpenOptions::default().with("force_c_order", force_c_order);
        open_bytes(&bytes, &options).unwrap().shape().to_string()
    };
    let spectra = Some("Spectrum image");
    assert_eq!(shape(&[5], None, None, false), "(1,) + (5,)");
    assert_eq!(shape(&[5, 4], None, None, false), "(1,) + (4, 5)");
    assert_eq!(shape(&[5, 4], spectra, None, false), "(4,) + (5,)");
    assert_eq!(shape(&[5, 4, 3], None, None, false), "(3,) + (4, 5)");
    assert_eq!(shape(&[5, 4, 3], spectra, None, false), "(4, 5) + (3,)");
    assert_eq!(shape(&[5, 4, 3], spectra, None, true), "(3, 4) + (5,)");
    assert_eq!(shape(&[5, 4, 3], spectra, Some(true), false), "(3, 4) + (5,)");
    assert_eq!(shape(&[5, 4, 3, 2], None, Some(true), false), "(2, 3) + (4, 5)");
    assert_eq!(shape(&[5, 4, 3, 2], None, Some(false), false), "(4, 5) + (2, 3)");
    assert_eq!(shape(&[5, 4, 3, 2], None, None, false), "(4, 5) + (2, 3)");
    assert_eq!(shape(&[5, 4, 3, 2], None, None, true), "(2, 3) + (4, 5)");
}

#[test]
fn cells_that_make_no_whole_frame_are_reported() {
    for (swapped, lengths) in [(true, [5, 4, 3]), (false, [3, 5, 4])] {
        let image = Image { swapped: Some(swapped), ..Image::new(U16, &lengths, &counting(60)) };
        let bytes = file(4, ByteOrder::Little, &[image], 0);
        let options = OpenOptions { sig_shape: Some(vec![2, 4, 5]), ..OpenOptions::default() };
        let dataset = open_bytes(&bytes, &options).unwrap();
        let warnings = dataset.source().info().warnings.join(", ");
        assert!(warnings.contains("40 bytes after the last of 1 whole frames"), "{warnings}");
    }
}

#[test]
fn one_of_several_images() {
    let image = |n: usize| Image::new(U16, &[n, 1], &counting(n));
    let fourier = Image { code: Some(27), ..image(7) };
    let bytes = file(4, ByteOrder::Little, &[image(2), fourier, image(3), image(4)], 1);
    let with = |dataset_index: Option<usize>| {
        OpenOptions::default().with_some("dataset_index", dataset_index)
    };
    let dataset = open_bytes(&bytes, &with(None)).unwrap();
    assert_eq!(dataset.shape().sig(), [1, 3]);
    let warnings = &dataset.source().info().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("1, 3"), "{warnings:?}");
    for (index, n) in [(0, 2), (2, 3), (3, 4)] {
        assert_eq!(open_bytes(&bytes, &with(Some(index))).unwrap().shape().sig(), [1, n]);
    }
    let error = open_bytes(&bytes, &with(Some(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Fourier"), "{error}");
    let error = open_bytes(&bytes, &with(Some(4))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("4 images"), "{error}");
}

#[test]
fn scan_shapes_and_offsets() {
    let image = Image::new(U16, &[2, 2, 6], &counting(24));
    let bytes = file(3, ByteOrder::Little, &[image], 0);
    let options =
        OpenOptions { nav_shape: Some(vec![2, 4]), sync_offset: -1, ..OpenOptions::default() };
    let dataset = open_bytes(&bytes, &options).unwrap();
    assert_eq!(dataset.shape().to_string(), "(2, 4) + (2, 2)");
    assert!(dataset.positions_with_data().into_iter().flatten().eq(1..7));
    let error = open_bytes(&bytes, &OpenOptions::default().with("same_offset", true));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error =
        open_bytes(&bytes, &OpenOptions { sig_shape: Some(vec![5, 5]), ..OpenOptions::default() });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn detection_and_details() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("renamed.bin");
    for (version, order) in [(3, ByteOrder::Big), (4, ByteOrder::Little)] {
        let stored = StoredDType { dtype: DType::U16, order };
        let image = Image::new(stored, &[2, 3, 4], &counting(24));
        std::fs::write(&path, file(version, order, &[image], 0)).unwrap();
        assert_eq!(detect(&path).unwrap().format.name, "dm");
        let dataset = open(&path, &OpenOptions::default()).unwrap();
        let details = &dataset.source().info().details;
        let expect = |name: &str, value: &str| {
            assert!(details.contains(&(name.into(), value.into())), "{details:?}");
        };
        expect("DM version", &version.to_string());
        let facts = &dataset.source().info().metadata;
        let step = |quantity| facts.get(quantity).cloned();
        assert_eq!(step(Quantity::ScanStepX), Some(MetadataValue::Number(500.0)));
        assert_eq!(step(Quantity::ImageStepY), Some(MetadataValue::Number(500.0)));
        expect("stored axes", "[4, 3, 2]");
    }
    // A .gtg file has the same tags.
    let path = dir.path().join("scan.gtg");
    std::fs::write(&path, file(3, ByteOrder::Little, &[], 0)).unwrap();
    assert_eq!(detect(&path).unwrap().format.name, "k2is");
    let error = open_as("dm", &path, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("k2is"), "{error}");
}

/// What an image says of the microscope and of the steps on its axes.
fn facts(image: Image) -> Vec<String> {
    let bytes = file(4, ByteOrder::Little, &[image], 0);
    let dataset = open_bytes(&bytes, &OpenOptions::default()).unwrap();
    let info = dataset.source().info();
    let details = info.details.iter().filter(|(name, _)| name.starts_with("step"));
    let facts = info.metadata.iter().map(|fact| format!("{} {fact}", fact.quantity.name()));
    facts.chain(details.map(|(name, value)| format!("{name}: {value}"))).collect()
}

#[test]
fn indicated_magnifications_of_diffraction_are_camera_lengths() {
    for (imaging, operation, expected) in [
        ("DIFFRACTION", "IMAGING", "camera_length 250 mm"),
        ("Diffraction", "", "camera_length 250 mm"),
        ("EFTEM DIFFRACTION", "IMAGING", "camera_length 250 mm"),
        ("", "DIFFRACTION", "camera_length 250 mm"),
        ("IMAGING", "IMAGING", "magnification 250"),
        // As instruments write it of scans: the number is that of the scan.
        ("DIFFRACTION", "SCANNING", "magnification 250"),
    ] {
        let image = Image::new(U16, &[5, 4], &counting(20));
        let image = Image { microscope: Some((imaging, operation, 250.0)), ..image };
        assert!(facts(image).contains(&expected.to_owned()), "{imaging}, {operation}");
    }
}

#[test]
fn lengths_on_the_axis_of_a_spectrum_are_wavelengths() {
    let image = |format, lengths: &[usize]| {
        let bytes = counting(lengths.iter().product());
        facts(Image { format, unit: "nm", ..Image::new(U16, lengths, &bytes) })
    };
    let steps = ["image_step_x 0.5 nm", "image_step_y 0.5 nm"];
    assert_eq!(image(None, &[5, 4]), steps);
    assert_eq!(image(Some("Spectrum"), &[5, 1]), ["step of axis 1: 0.5 nm"]);
    assert_eq!(image(Some("Spectrum"), &[5]), ["step of axis 0: 0.5 nm"]);
    let energies =
        Image { format: Some("Spectrum"), unit: "eV", ..Image::new(U16, &[5, 1], &counting(5)) };
    assert_eq!(facts(energies), ["energy_step 0.5 eV"]);
}

#[test]
fn steps_without_a_unit_are_steps() {
    let image = Image { unit: "", ..Image::new(U16, &[5, 4], &counting(20)) };
    let bytes = file(4, ByteOrder::Little, &[image], 0);
    let dataset = open_bytes(&bytes, &OpenOptions::default()).unwrap();
    let axes = framefold_core::axes(&[], &[4, 5], &dataset.source().info().metadata);
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    assert_eq!(axes, ["y: 4 × 0.5", "x: 5 × 0.5"]);
}

//! Real files, against what independent readers made of them.

use crate::real_files::{bytes_of, data_dir, entries, is_the_same, numbers};
use framefold_core::{ErrorKind, checked_product};
use framefold_io::{Backend, OpenOptions, detect, open};
use serde_json::Value;

/// Files whose pixels are no numbers, by what is in their way.
const REFUSED: &[(&str, &str)] = &[("test_fft_packed_complex8.dm4", "Fourier")];

/// The index of the image that a reading is of; readers that show no thumbnails count without.
fn n_thumbnails(path: &std::path::Path) -> usize {
    // GMS itself puts one first; the community's writer writes none.
    usize::from(!path.to_string_lossy().contains("nionswift"))
}

#[test]
fn every_reading_of_every_file() {
    let mut n_readings = 0;
    for entry in entries("DM") {
        let name = entry["file"].as_str().unwrap();
        let path = data_dir().join(name);
        assert_eq!(detect(&path).unwrap().format.name, "dm", "{name}");
        if let Some((_, words)) = REFUSED.iter().find(|(end, _)| name.ends_with(end)) {
            let error = open(&path, &OpenOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            continue;
        }
        let readings = entry["readings"].as_array().unwrap();
        for backend in [Backend::Mmap, Backend::Buffered] {
            // Other readers give arrays as they lie in the file.
            let as_stored =
                OpenOptions { backend, ..OpenOptions::default() }.with("force_c_order", true);
            let first = open(&path, &as_stored).unwrap();
            let is_picture = first.source().info().warnings.iter().any(|w| w.contains("colour"));
            for (i, reading) in readings.iter().enumerate() {
                let context = format!("{name}, as read by {}", reading["reader"]);
                if is_picture && !reading["reader"].as_str().unwrap().starts_with("LiberTEM") {
                    continue;
                }
                let index = image_of(readings, i) + n_thumbnails(&path);
                let options = as_stored.clone().with("dataset_index", index);
                let dataset = open(&path, &options).unwrap();
                let dtype = dataset.source().info().dtype.dtype.name();
                let shape = numbers(&reading["shape"]);
                let cells = dataset.shape().dims().to_vec();
                assert_eq!(checked_product(&cells), checked_product(&shape), "{context}");
                assert!(is_the_same(&bytes_of(&dataset), dtype, reading), "{context}");
                n_readings += 1;
            }
        }
    }
    assert!(n_readings == 0 || n_readings >= 2 * 80, "{n_readings} readings");
}

/// Which image of the file a reading is of: a reader that gives several gives them in order.
fn image_of(readings: &[Value], i: usize) -> usize {
    let same_reader = |reading: &&Value| reading["reader"] == readings[i]["reader"];
    readings[..i].iter().filter(same_reader).count()
}

#[test]
fn spectrum_images_have_a_spectrum_at_each_position() {
    if entries("DM").is_empty() {
        return;
    }
    let path = data_dir().join("DM/rosettasciio/3D/EELS_SI.dm4");
    for backend in [Backend::Mmap, Backend::Buffered] {
        let with = |force_c_order: bool| {
            OpenOptions { backend, ..OpenOptions::default() }.with("force_c_order", force_c_order)
        };
        let spectra = open(&path, &with(false)).unwrap();
        assert_eq!(spectra.shape().to_string(), "(2, 2) + (2048,)");
        let stored = bytes_of(&open(&path, &with(true)).unwrap());
        let expected: Vec<u8> = (0..4)
            .flat_map(|position| (0..2048).map(move |energy| 4 * (energy * 4 + position)))
            .flat_map(|at| stored[at..at + 4].to_vec())
            .collect();
        assert_eq!(bytes_of(&spectra), expected);
    }
}

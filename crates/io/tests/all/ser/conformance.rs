//! Real files, against what independent readers made of them.

use crate::real_files::{bytes_of, data_dir, entries, is_the_same, numbers};
use framefold_core::ErrorKind;
use framefold_io::{Backend, OpenOptions, detect, open};

#[test]
fn every_reading_of_every_file() {
    let mut n_readings = 0;
    for entry in entries("SER") {
        let name = entry["file"].as_str().unwrap();
        let path = data_dir().join(name);
        assert_eq!(detect(&path).unwrap().format.name, "ser", "{name}");
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = match open(&path, &options) {
                Ok(dataset) => dataset,
                Err(error) => {
                    // Meta data whose series are not there.
                    assert!(name.ends_with(".emi"), "{name}: {error}");
                    assert_eq!(error.kind(), ErrorKind::BadFile);
                    assert!(error.to_string().contains("_1.ser"), "{error}");
                    continue;
                }
            };
            let info = dataset.source().info();
            let (dtype, sig_shape) = (info.dtype.dtype.name(), info.sig_shape.clone());
            let found = bytes_of(&dataset);
            let readings = entry["readings"].as_array().unwrap();
            for (i, reading) in readings.iter().enumerate() {
                let reader = reading["reader"].as_str().unwrap();
                let context = format!("{name}, as read by {reader}");
                // Readings of an .emi file are of all of its series; this is the first one.
                let is_other = name.ends_with(".emi") && i > 0;
                // LiberTEM fills what was not recorded.
                let shape = numbers(&reading["shape"]);
                if is_other || (reader.starts_with("LiberTEM") && shape[0] as u64 != info.n_frames)
                {
                    continue;
                }
                assert!(shape.ends_with(&sig_shape), "{context}");
                assert!(is_the_same(&found, dtype, reading), "{context}");
                n_readings += 1;
            }
        }
    }
    assert!(n_readings == 0 || n_readings >= 2 * 50, "{n_readings} readings");
}

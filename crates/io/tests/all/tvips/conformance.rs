//! Files of other writers, against what independent readers made of them.

use crate::real_files::{bytes_of, data_dir, entries, is_the_same, numbers};
use framefold_io::{Backend, OpenOptions, detect, open};

#[test]
fn every_reading_of_every_file() {
    for entry in entries("TVIPS") {
        let name = entry["file"].as_str().unwrap();
        let path = data_dir().join(name);
        assert_eq!(detect(&path).unwrap().format.name, "tvips", "{name}");
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open(&path, &options).unwrap();
            let info = dataset.source().info();
            let n_sidecars = entry["sidecars"].as_array().unwrap().len();
            assert_eq!(info.paths.len(), 1 + n_sidecars, "{name}");
            for reading in entry["readings"].as_array().unwrap() {
                assert_eq!(numbers(&reading["shape"])[1..], info.sig_shape, "{name}");
                let dtype = info.dtype.dtype.name();
                assert!(is_the_same(&bytes_of(&dataset), dtype, reading), "{name}");
            }
        }
    }
}

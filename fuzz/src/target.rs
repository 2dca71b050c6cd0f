//! What is fuzzed: each format, and finding out which one a file is.

use framefold::io::FORMATS;

/// One thing to fuzz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The format, or `detect`.
    pub name: &'static str,
    /// The file that is opened. Files of a set have names by which their format finds them.
    pub main: &'static str,
}

/// All of them: one for each format, and `detect`.
pub const TARGETS: &[Target] = &[
    Target { name: "detect", main: "scan" },
    Target { name: "npy", main: "scan.npy" },
    Target { name: "hdf5", main: "scan.h5" },
    Target { name: "blo", main: "scan.blo" },
    Target { name: "seq", main: "scan.seq" },
    Target { name: "tvips", main: "scan_000.tvips" },
    Target { name: "ser", main: "scan_1.ser" },
    Target { name: "k2is", main: "scan.gtg" },
    Target { name: "dm", main: "scan.dm4" },
    Target { name: "frms6", main: "scan.hdr" },
    Target { name: "mib", main: "scan0.mib" },
    Target { name: "mrc", main: "scan_movie.mrc" },
    Target { name: "empad", main: "scan.xml" },
    Target { name: "raw_csr", main: "scan.toml" },
    Target { name: "zarr", main: "scan.zarr/zarr.json" },
    Target { name: "tiff", main: "scan.tif" },
    Target { name: "prz", main: "scan.prz" },
    Target { name: "spe", main: "scan.spe" },
    Target { name: "raw", main: "scan.raw" },
];

impl Target {
    /// The target of that name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.iter().copied().find(|target| target.name == name)
    }

    /// The names of the options that mean something to it.
    pub(crate) fn options(self) -> Vec<&'static str> {
        let found = FORMATS.iter().find(|format| format.name == self.name);
        let specs = found.map_or(&[][..], |format| format.options);
        specs.iter().map(|spec| spec.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_fuzzed() {
        for format in FORMATS {
            assert!(Target::named(format.name).is_some(), "no target for '{}'", format.name);
        }
        assert_eq!(TARGETS.len(), FORMATS.len() + 1, "and one for detection");
    }
}

//! What a caller may say about a file beyond its path.

use framefold_core::{ByteOrder, Error, Result, StoredDType};
use std::path::PathBuf;

/// How the bytes of a file are brought into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The file is mapped; tiles are lent as they lie in it where dtype and layout allow.
    #[default]
    Mmap,
    /// The file is read piece by piece. Slower on a local disk; robust on network file systems.
    Buffered,
}

impl Backend {
    /// The name used by callers: `mmap` or `buffered`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Mmap => "mmap",
            Backend::Buffered => "buffered",
        }
    }
}

/// What to do about the gap between the chips of a quad detector where the file has no pixels
/// for it (MIB raw modes with layout `2x2G`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuadGap {
    /// The chips touch: 512 × 512 pixels.
    #[default]
    Omit,
    /// Two empty rows and columns between the chips: 514 × 514 pixels.
    Insert,
}

/// What a caller may say about a file beyond its path; the default says nothing.
///
/// An option given to a format that has no use for it is an error, never ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The scan shape. Its product may differ from the number of frames: surplus frames are
    /// left out, positions without a frame have no data. `None` takes what the file suggests.
    pub nav_shape: Option<Vec<usize>>,
    /// The shape of a frame. `None` takes what the file says.
    pub sig_shape: Option<Vec<usize>>,
    /// The data set within a file that holds many, or the group that holds its parts.
    pub ds_path: Option<String>,
    /// How many trailing axes of an array file are signal axes; 2 if neither this nor
    /// `sig_shape` is given.
    pub sig_dims: Option<usize>,
    /// The dtype of the pixels in a file that does not say so itself.
    pub dtype: Option<StoredDType>,
    /// Scan position `p` shows frame `p + sync_offset`.
    pub sync_offset: i64,
    /// Whether `sync_offset` is what the caller wants even where it is 0. Formats that know
    /// themselves where the scan begins (`tvips`, `k2is`) go by the file otherwise.
    pub fixed_sync: bool,
    /// Bytes before the first frame of each file.
    pub file_header: u64,
    /// Bytes after the last frame of each file.
    pub file_footer: u64,
    /// Bytes before the pixels of each frame.
    pub frame_header: u64,
    /// Bytes after the pixels of each frame.
    pub frame_footer: u64,
    /// How the bytes are brought into memory.
    pub backend: Backend,
    /// Reads only the file that is named, not the other members of its set.
    pub disable_glob: bool,
    /// What to do about the gap between chips where the file has no pixels for it.
    pub quad_gap: QuadGap,
    /// Whether dark frames, gain maps and lists of bad pixels that come with the file are applied;
    /// they are if nothing is said, but for the masks of HDF5, of which a sentence tells.
    pub enable_corrections: Option<bool>,
    /// The byte order of a file that does not say so itself, or says it wrongly.
    pub byte_order: Option<ByteOrder>,
    /// A file with a gain map, for formats that do not bring one.
    pub gain_map_path: Option<PathBuf>,
    /// The files of a stack, in the order of its frames; empty for a single file or a set that is
    /// found by itself. The path that is opened is then that of the first one.
    pub files: Vec<PathBuf>,
    /// Takes the pixels of all files of a stack to begin where those of the first one do, and to
    /// be as many, without looking.
    pub same_offset: bool,
    /// Takes axes to be in the order scan, detector, whatever the file says or leaves open.
    pub force_c_order: bool,
    /// Which of several data sets in a file to read, thumbnails counted.
    pub dataset_index: Option<usize>,
    /// The file of meta data that belongs to a series.
    pub emipath: Option<PathBuf>,
    /// Follows links and names to files outside of the folder of the file that is opened.
    pub allow_external_links: bool,
}

impl OpenOptions {
    /// The names of all options, as callers spell them, and whether they differ from the default.
    fn given(&self) -> Vec<(&'static str, bool)> {
        vec![
            ("nav_shape", self.nav_shape.is_some()),
            ("sig_shape", self.sig_shape.is_some()),
            ("ds_path", self.ds_path.is_some()),
            ("sig_dims", self.sig_dims.is_some()),
            ("dtype", self.dtype.is_some()),
            ("sync_offset", self.sync_offset != 0),
            ("file_header", self.file_header != 0),
            ("file_footer", self.file_footer != 0),
            ("frame_header", self.frame_header != 0),
            ("frame_footer", self.frame_footer != 0),
            ("backend", self.backend != Backend::default()),
            ("disable_glob", self.disable_glob),
            ("quad_gap", self.quad_gap != QuadGap::default()),
            ("enable_corrections", self.enable_corrections.is_some()),
            // The spelling is that of the reference.
            ("endianess", self.byte_order.is_some()),
            ("gain_map_path", self.gain_map_path.is_some()),
            ("files", !self.files.is_empty()),
            ("same_offset", self.same_offset),
            ("force_c_order", self.force_c_order),
            ("dataset_index", self.dataset_index.is_some()),
            ("emipath", self.emipath.is_some()),
            ("allow_external_links", self.allow_external_links),
        ]
    }

    /// The names of all options.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.given().into_iter().map(|(name, _)| name).collect()
    }

    /// Refuses options that `format` has no use for; `used` are those that it has.
    ///
    /// # Errors
    /// `InvalidArgument` that names the option and the format.
    pub(crate) fn refuse_unused(&self, format: &'static str, used: &[&str]) -> Result<()> {
        match self.given().iter().find(|(name, given)| *given && !used.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "the option '{name}' has no meaning for the format '{format}'"
            ))
            .with_hint(format!("leave it out; '{format}' takes {}", used.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::DType;

    #[test]
    fn the_default_gives_no_option() {
        assert!(OpenOptions::default().given().iter().all(|(_, given)| !given));
        assert!(OpenOptions::default().refuse_unused("npy", &[]).is_ok());
    }

    #[test]
    fn an_option_without_use_is_named() {
        let every_option = OpenOptions {
            nav_shape: Some(vec![1]),
            sig_shape: Some(vec![1]),
            ds_path: Some("entry/data".into()),
            sig_dims: Some(1),
            dtype: Some(DType::U8.into()),
            sync_offset: 1,
            fixed_sync: true,
            file_header: 1,
            file_footer: 1,
            frame_header: 1,
            frame_footer: 1,
            backend: Backend::Buffered,
            disable_glob: true,
            quad_gap: QuadGap::Insert,
            enable_corrections: Some(true),
            byte_order: Some(ByteOrder::Big),
            gain_map_path: Some(PathBuf::from("gain.csv")),
            files: vec![PathBuf::from("a")],
            same_offset: true,
            force_c_order: true,
            dataset_index: Some(0),
            emipath: Some(PathBuf::from("a")),
            allow_external_links: true,
        };
        let names = every_option.names();
        assert!(every_option.given().iter().all(|(_, given)| *given));
        for unused in &names {
            let used: Vec<&str> = names.iter().copied().filter(|name| name != unused).collect();
            let error = every_option.refuse_unused("npy", &used).unwrap_err().to_string();
            assert!(error.contains(&format!("'{unused}'")) && error.contains("'npy'"), "{error}");
        }
        assert!(every_option.refuse_unused("npy", &names).is_ok());
    }
}

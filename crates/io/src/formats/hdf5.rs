//! HDF5, in the dialects of many programs: plain, HyperSpy, EMD, py4DSTEM, NeXus, DECTRIS, Velox, DM5, Delmic.
//!
//! | where | what |
//! |---|---|
//! | byte 0, 512, 1024, … | `89 48 44 46 0D 0A 1A 0A`, the superblock |
//! | from there | groups of names, which lead to data sets, to other names and to other files |
//! | for each data set | a header: shape, dtype, where the pixels are, filters, fill value |
//!
//! Endianness: meta data little endian, pixels as their dtype says. Pixels lie in one run of
//! bytes, or in chunks of one shape, each of which went through the same filters. Known writers:
//! whatever uses libhdf5. Limits: no pixels in files without structure; of records, complex numbers
//! alone: pairs of floats named `r` and `i`, or with names that begin with `re` and `im`.
//!
//! A library reads the meta data. It says where each chunk is, once; from then on workers read and
//! decode them by themselves.

mod array;
mod assemble;
mod chunk_table;
mod converted;
mod delmic;
mod dense;
mod dm5;
mod dtype;
mod emd;
mod failures;
mod filters;
mod find;
mod frames;
mod grid;
mod headers;
mod index;
mod json;
mod library;
mod links;
mod mapping;
mod metadata;
mod nexus;
mod nion;
mod pixel_mask;
mod selection;
mod spelling;
mod topspin;
mod values;
mod velox;
mod virtual_set;

use crate::access::Storage;
pub(crate) use failures::older;

use crate::format::{Format, Prefix, Verdict};
use crate::options;
use crate::options::{Backend, DS_PATH, OpenOptions};
use framefold_core::{Dataset, Error, Result};
use frames::Frames;
use library::Library;
use pixel_mask::PixelMask;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "hdf5",
    title: "HDF5",
    extensions: &["h5", "hdf5", "hspy", "nxs", "emd", "de5", "app5", "he5", "hdf", "dm5"],
    options: &[
        options::DS_PATH,
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SIG_DIMS,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::ALLOW_EXTERNAL_LINKS,
        options::ENABLE_CORRECTIONS,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    match signature(prefix) {
        Some(0) => Verdict::Match("it starts with the HDF5 signature".into()),
        Some(offset) => Verdict::Match(format!("the HDF5 signature is at byte {offset}")),
        None => Verdict::No(format!("it starts with {}, not with '\\x89HDF'", prefix.describe())),
    }
}

/// Where the signature is: at the start, or behind what others keep in front of it, 512 bytes or
/// any number of times twice as many. Those beyond the prefix are read from the file.
fn signature(prefix: &Prefix<'_>) -> Option<u64> {
    let mut file = None;
    std::iter::once(0).chain((9..63).map(|power| 1u64 << power)).find(|&offset| {
        let end = offset + 8;
        if end > prefix.len {
            return false;
        }
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(bytes) = prefix.bytes.get(at..).and_then(|bytes| bytes.get(..8)) {
            return bytes == MAGIC;
        }
        let file = file.get_or_insert_with(|| Storage::open(prefix.path, Backend::Buffered));
        let mut bytes = [0; 8];
        file.as_ref().is_ok_and(|file| file.read_at(offset, &mut bytes).is_ok()) && bytes == MAGIC
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let (source, mask, lacks_end) = failures::contained(|| {
        let library =
            Library::open(path, options.backend, options.is_on(&options::ALLOW_EXTERNAL_LINKS))?;
        let cut_short = library.main.cut_short();
        if let Some(problem) = cut_short.as_ref().filter(|_| options.text(&DS_PATH).is_none()) {
            // What was written last may be what is looked for, and another data set would be found.
            let error = Error::bad_file(problem).with_hint(
                "copy it again, or name a data set by ds_path to read what is there of it",
            );
            return Err(library.main.locate(error));
        }
        let found = find::find(&library, options).map_err(|error| library.main.locate(error))?;
        let mut frames = Frames::read(&library, &found, options)?;
        frames.warnings.extend(cut_short);
        let sig_shape = frames.sig_shape.clone();
        let mask = PixelMask::find(
            &library,
            &found,
            &sig_shape,
            options.switch(&options::ENABLE_CORRECTIONS),
            &mut frames.warnings,
        )?;
        let lacks_end = frames.lacks_end;
        let source = assemble::source(&library, frames)?;
        library.main.storage.verify()?;
        Ok((source, mask, lacks_end))
    })?;
    Ok(Dataset::try_new(source, options.nav_shape.as_deref(), options.sync_offset)?
        .with_lost_frames((!lacks_end).then_some(0))
        .with_corrections(mask.applied.map(Arc::new))?
        .with_unused_corrections(mask.unused))
}

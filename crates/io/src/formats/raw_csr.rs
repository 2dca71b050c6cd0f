//! raw_csr: compressed sparse rows in three plain files, and a TOML file that names them.
//!
//! | key | content |
//! |---|---|
//! | `params.filetype` | `"raw_csr"` |
//! | `params.nav_shape`, `params.sig_shape` | shapes of scan and frame: lists of lengths |
//! | `raw_csr.indptr_file`, `raw_csr.indptr_dtype` | row pointers: integers, frames + 1 |
//! | `raw_csr.indices_file`, `raw_csr.indices_dtype` | columns: integers, one per entry |
//! | `raw_csr.data_file`, `raw_csr.data_dtype` | values: any dtype, one per entry |
//! | `framefold.orientation` | how frames were turned when they were written; optional, of framefold's own |
//!
//! The files hold the arrays and nothing else; their names are relative to the folder of the TOML
//! file, and lead out of it only if `allow_external_links` is set. dtypes are NumPy's, with byte order: `<i4`, `>u8`, `float32`. Known writers: LiberTEM's
//! users and [`write_raw_csr`](crate::write::write_raw_csr). What the arrays mean, and what is checked
//! when: [`CsrSource`]. Limits: frames of fewer than 2^32 pixels; descriptors up to 1 MiB.

mod descriptor;

use crate::access::Storage;
use crate::access::enclosure::Enclosure;
use crate::format::{Format, PREFIX_LEN, Prefix, Verdict};
use crate::options;
use crate::options::{Backend, OpenOptions};
use crate::readers::csr::{CsrArray, CsrSource, CsrSpec};
use descriptor::ArrayFile;
pub(crate) use descriptor::{Descriptor, descriptor_text};
use framefold_core::{AxisKind, Dataset, Error, Result, checked_product};
use std::path::Path;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "raw_csr",
    title: "sparse frames (raw_csr)",
    extensions: &["toml"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::ALLOW_EXTERNAL_LINKS,
    ],
    detect: &detect,
    open: &open,
};

/// No descriptor is anywhere near this size.
const MAX_LEN: u64 = 1 << 20;

fn detect(prefix: &Prefix<'_>) -> Verdict {
    let mut text = prefix.bytes;
    if prefix.len > MAX_LEN {
        return Verdict::No("it is too long for a descriptor".into());
    }
    if prefix.bytes.len() == PREFIX_LEN {
        // The last line may be cut.
        let end = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        text = text.get(..end).unwrap_or_default();
    }
    match std::str::from_utf8(text).map_err(|_| "text").and_then(descriptor::filetype) {
        Ok(Some(name)) if descriptor::is_raw_csr(&name) => {
            Verdict::Match(format!("it is a TOML file with params.filetype = '{name}'"))
        }
        Ok(Some(name)) => Verdict::No(format!("its params.filetype is '{name}'")),
        Ok(None) => Verdict::No("it has no key params.filetype".into()),
        Err(what) => Verdict::No(format!("it is no {what}")),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let descriptor = Descriptor::parse(&read_text(path)?)?;
    let sig_shape = sig_shape(&descriptor, options)?;
    let nav_shape = options.nav_shape.clone().map_or_else(|| descriptor.nav_shape(), Ok)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let around = Enclosure::new(folder, options.is_on(&options::ALLOW_EXTERNAL_LINKS))?;
    let array = |file: &ArrayFile| {
        let path = folder.join(&file.name);
        around.check(&path)?;
        let storage = Storage::open(path, options.backend)?;
        Ok::<_, Error>(CsrArray { storage, stored: file.stored })
    };
    let (own_nav, own_sig) = (descriptor.nav_shape().unwrap_or_default(), descriptor.sig_shape()?);
    let mut metadata = descriptor.metadata(own_nav.len(), own_sig.len());
    metadata.lay_out(AxisKind::Nav, &own_nav, &nav_shape);
    metadata.lay_out(AxisKind::Sig, &own_sig, &sig_shape);
    let source = CsrSource::try_new(CsrSpec {
        format: FORMAT.name,
        row_pointers: array(&descriptor.row_pointers)?,
        columns: array(&descriptor.columns)?,
        values: array(&descriptor.values)?,
        descriptor: Some(path.to_path_buf()),
        sig_shape,
        nav_shape: Some(nav_shape.clone()),
        metadata,
        details: vec![
            ("row pointers".into(), descriptor.row_pointers.describe()),
            ("columns".into(), descriptor.columns.describe()),
            ("values".into(), descriptor.values.describe()),
        ],
    })?;
    Dataset::try_new(Arc::new(source), Some(&nav_shape), options.sync_offset)
}

/// The text of a descriptor.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let storage = Storage::open(path, Backend::Buffered)?;
    let len = Some(storage.len()).filter(|&len| len <= MAX_LEN);
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
        return Err(Error::bad_file(format!(
            "the file is {} bytes long; a descriptor takes a few hundred",
            storage.len()
        ))
        .with_hint("name the TOML file, not one of the arrays"));
    };
    let mut bytes = vec![0; len];
    storage.read_at(0, &mut bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = u64::try_from(error.utf8_error().valid_up_to()).unwrap_or(u64::MAX);
        Error::bad_file("the file is not a TOML file: it is not text (UTF-8)").with_offset(offset)
    })
}

/// The shape of a frame: the caller's, which has to have as many pixels as the descriptor's.
fn sig_shape(descriptor: &Descriptor, options: &OpenOptions) -> Result<Vec<usize>> {
    let Some(asked) = &options.sig_shape else { return descriptor.sig_shape() };
    let own = descriptor.sig_shape()?;
    if checked_product(asked) != checked_product(&own) {
        return Err(Error::invalid(format!(
            "frames of shape {own:?} cannot be shown with sig_shape {asked:?}: the number of \
             pixels has to be the same"
        ))
        .with_hint("leave sig_shape out"));
    }
    Ok(asked.clone())
}

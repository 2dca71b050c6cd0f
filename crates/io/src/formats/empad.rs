//! EMPAD, first generation: the detector of Cornell and Thermo Fisher Scientific.
//!
//! A `.raw` file holds nothing but frames, one after the other, little endian:
//!
//! | bytes | content |
//! |---|---|
//! | 0 – 65535 | 128 × 128 pixels as f32, row by row |
//! | 65536 – 66559 | two rows more, of unknown meaning |
//!
//! A `.xml` file beside it names the `.raw` file and tells the shape of the scan, see `sidecar`.
//! Known writer: the EMPAD software 0.51 to 1.2.2. Limits: files of the second generation
//! (EMPAD-G2) are something else and not read; nothing in a `.raw` file tells one from the other.

mod sidecar;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::fields::read_small;
use crate::headers::geometry::{FrameCount, sig_shape};
use crate::headers::xml;
use crate::options;
use crate::options::OpenOptions;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{
    AxisKind, ByteOrder, DType, Dataset, Error, MetadataList, Result, StoredDType, checked_product,
};
use sidecar::Sidecar;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "empad",
    title: "EMPAD, an XML file with a .raw file beside it",
    extensions: &["xml", "raw"],
    options: &[options::NAV_SHAPE, options::SIG_SHAPE, options::SYNC_OFFSET, options::IO_BACKEND],
    detect: &detect,
    open: &open,
};

const EDGE: usize = 128;
const FRAME_BYTES: u64 = 128 * 128 * 4;
const STRIDE: u64 = 130 * 128 * 4;

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if sidecar::is_sidecar(prefix.bytes) {
        return Verdict::Match("it is the XML file of an EMPAD recording".into());
    }
    if prefix.extension() == "raw" && prefix.len.is_multiple_of(STRIDE) {
        return Verdict::No(format!(
            "it has the size of {} frames, but no signature; load it as 'empad' if it is one",
            prefix.len / STRIDE
        ));
    }
    Verdict::No(format!("it starts with {}, not with its XML", prefix.describe()))
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let sidecar = if is_xml(path)? { Some(read_sidecar(path)?) } else { None };
    let raw = match &sidecar {
        Some(sidecar) => raw_beside(path, sidecar)?,
        None => path.to_path_buf(),
    };
    let storage = Storage::open(&raw, options.backend)?;
    let count = FrameCount::try_new(storage.len(), 0, STRIDE, FRAME_BYTES)
        .map_err(|error| storage.locate(error))?;
    let n_frames = count.n_frames;
    let suggestion = match &sidecar {
        Some(sidecar) => sidecar.nav_shape(n_frames),
        None => {
            let name = raw.file_name().unwrap_or_default().to_string_lossy();
            sidecar::nav_shape_by_name(&name, n_frames)
        }
    };
    // Positions that the scan has and the file has not; of a scan that is guessed, nothing tells how many.
    let n_positions = checked_product(&suggestion.shape).unwrap_or(u64::MAX);
    let lost = match suggestion.guessed {
        true => count.lost_by_a_cut(0),
        false => Some(n_positions.saturating_sub(n_frames)),
    };
    let mut details = vec![("scan shape from".to_owned(), suggestion.origin.to_owned())];
    let mut metadata = MetadataList::new();
    if let Some(sidecar) = sidecar {
        details.push(("sidecar".to_owned(), path.display().to_string()));
        metadata = sidecar.metadata(&suggestion);
    }
    let sig_shape = sig_shape(&[EDGE, EDGE], options)?;
    metadata.lay_out(AxisKind::Sig, &[EDGE, EDGE], &sig_shape);
    let mut warnings: Vec<String> = count.warning(STRIDE).into_iter().collect();
    if options.nav_shape.is_none() {
        warnings.extend(suggestion.warning);
    }
    let stored = StoredDType { dtype: DType::F32, order: ByteOrder::Little };
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: vec![LinearFile { storage, frames: 0..n_frames, first_pixel: 0, stride: STRIDE }],
        pixels: Pixels::Plain { stored },
        sig_shape,
        nav_shape: suggestion.shape,
        metadata,
        details,
        warnings,
    })?;
    let dataset =
        Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?;
    Ok(dataset.with_lost_frames(lost))
}

/// Whether a file is the sidecar: by its content, or else by its name.
fn is_xml(path: &Path) -> Result<bool> {
    let storage = Storage::open(path, crate::options::Backend::Buffered)?;
    let mut head = vec![0; usize::try_from(storage.len().min(4096)).unwrap_or(0)];
    storage.read_at(0, &mut head)?;
    Ok(sidecar::is_sidecar(&head)
        || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")))
}

fn read_sidecar(path: &Path) -> Result<Sidecar> {
    let bytes = read_small(path, xml::MAX_LEN)?;
    let root = xml::Element::parse(&bytes).map_err(|error| error.with_path(path))?;
    Sidecar::new(&root).map_err(|error| error.with_path(path))
}

/// The `.raw` file that a sidecar names, in the sidecar's own folder.
fn raw_beside(path: &Path, sidecar: &Sidecar) -> Result<PathBuf> {
    let raw = path.with_file_name(&sidecar.raw_name);
    if raw.is_file() {
        return Ok(raw);
    }
    Err(Error::bad_file(format!(
        "there is no file '{}' beside it, which it says holds the frames",
        sidecar.raw_name
    ))
    .with_path(path)
    .with_hint("put both files into one folder, or load the .raw file itself as 'empad'"))
}

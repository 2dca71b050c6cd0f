//! NPY: one NumPy array.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 6 | `93 4E 55 4D 50 59` (`\x93NUMPY`) |
//! | 6 | 1 + 1 | version: 1.0, 2.0 or 3.0 |
//! | 8 | 2 (version 1), 4 (2 and 3) | length L of the header |
//! | 10 / 12 | L | Python dict with `descr`, `fortran_order`, `shape`; Latin-1 (1, 2), UTF-8 (3) |
//! | 10 + L / 12 + L | | the array, in C or Fortran order |
//!
//! Endianness: the length is little endian; pixels as `descr` says. Known writers: NumPy and
//! whatever speaks to it. Limits: no structured, object, text or time dtypes. A file cut short
//! keeps its whole frames in C order; in Fortran order every frame is spread over the whole file,
//! and nothing can be kept.

mod header;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::geometry::FrameCount;
use crate::options;
use crate::options::OpenOptions;
use crate::readers::linear::frame_bytes;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use crate::readers::recut::{Axis, recut, suggested_nav_shape};
use crate::readers::strided::{StridedLayout, StridedSource, StridedSpec};
use framefold_core::{AxisKind, DataSource, Dataset, Error, MetadataList, Result, checked_product};
use header::Header;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "npy",
    title: "a NumPy array (NPY)",
    extensions: &["npy"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SIG_DIMS,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if prefix.bytes.starts_with(MAGIC) {
        Verdict::Match("it starts with the NPY signature".into())
    } else {
        Verdict::No(format!("it starts with {}, not with '\\x93NUMPY'", prefix.describe()))
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    open_stored(storage, FORMAT.name, MetadataList::new(), options)
}

/// Opens an array that may be part of another file.
///
/// # Errors
/// As for a file of its own.
pub(crate) fn open_stored(
    storage: Storage,
    format: &'static str,
    mut metadata: MetadataList,
    options: &OpenOptions,
) -> Result<Dataset> {
    let header = Header::read(&storage)?;
    let n_sig = sig_dims(&header.shape, options)?;
    let sig = header.shape.get(header.shape.len().saturating_sub(n_sig)..).unwrap_or_default();
    let sig_shape = options.sig_shape.clone().unwrap_or_else(|| sig.to_vec());
    let frame = frame_bytes(&sig_shape, header.stored)?;
    let nav_shape = suggested_nav_shape(&header.shape, &sig_shape);
    let image = header.shape.get(header.shape.len().saturating_sub(2)..).unwrap_or_default();
    metadata.lay_out(AxisKind::Sig, image, &sig_shape);

    let promised = checked_product(&header.shape)
        .and_then(|n| n.checked_mul(u64::try_from(header.stored.dtype.size()).ok()?))
        .ok_or_else(|| {
            Error::bad_file(format!("the shape {:?} has too many cells", header.shape))
        })?;
    if frame > promised {
        return Err(Error::invalid(format!(
            "a frame of shape {sig_shape:?} is larger than the whole array of shape {:?}",
            header.shape
        ))
        .with_hint("check sig_shape"));
    }
    let found = storage.len().saturating_sub(header.data_start);
    let contents = Contents {
        format,
        metadata,
        header,
        storage,
        frame,
        promised,
        found,
        sig_shape,
        nav_shape,
    };
    let promised = contents.promised / contents.frame.max(1);
    let source: Arc<dyn DataSource> =
        if contents.header.fortran_order { contents.fortran()? } else { contents.linear()? };
    let lost = promised.saturating_sub(source.info().n_frames);
    let dataset = Dataset::try_new(source, options.nav_shape.as_deref(), options.sync_offset)?;
    Ok(dataset.with_lost_frames(lost))
}

/// How many trailing axes are signal axes.
fn sig_dims(shape: &[usize], options: &OpenOptions) -> Result<usize> {
    let given = options.sig_shape.as_ref().map(Vec::len);
    if let (Some(of_shape), Some(asked)) = (given, options.count(&options::SIG_DIMS))
        && of_shape != asked
    {
        return Err(Error::invalid(format!(
            "sig_shape has {of_shape} axes, but sig_dims is {asked}"
        ))
        .with_hint("leave sig_dims out"));
    }
    if given.is_some() {
        // The array is cut anew; its own axes need not be as many.
        return Ok(given.unwrap_or(0).min(shape.len()));
    }
    let asked = options.count(&options::SIG_DIMS).unwrap_or(2);
    if asked == 0 || asked > shape.len() {
        return Err(Error::invalid(format!(
            "the array has {} axes ({shape:?}), of which {asked} cannot be signal axes",
            shape.len()
        ))
        .with_hint(format!("set sig_dims to a number from 1 to {}", shape.len())));
    }
    Ok(asked)
}

/// An open file, with all that its header says.
struct Contents {
    format: &'static str,
    metadata: MetadataList,
    header: Header,
    storage: Storage,
    /// Bytes of one frame.
    frame: u64,
    /// Bytes of the whole array, as the header has it.
    promised: u64,
    /// Bytes after the header.
    found: u64,
    sig_shape: Vec<usize>,
    nav_shape: Vec<usize>,
}

impl Contents {
    fn linear(self) -> Result<Arc<dyn DataSource>> {
        let n_frames = self.found.min(self.promised) / self.frame;
        if n_frames == 0 {
            return Err(self.too_short("not even one whole frame"));
        }
        let stored = self.header.stored;
        let mut warnings = self.surplus_warning();
        if self.found < self.promised {
            warnings.push(format!(
                "the file is cut short: its header promises {} bytes of pixels, {} are there; \
                 the {n_frames} whole frames are used",
                self.promised, self.found
            ));
        }
        Ok(Arc::new(LinearSource::try_new(LinearSpec {
            format: self.format,
            details: self.details(),
            metadata: self.metadata,
            files: vec![LinearFile {
                storage: self.storage,
                frames: 0..n_frames,
                first_pixel: self.header.data_start,
                stride: self.frame,
            }],
            pixels: Pixels::Plain { stored },
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            warnings,
        })?))
    }

    fn fortran(self) -> Result<Arc<dyn DataSource>> {
        if self.found < self.promised {
            return Err(self.too_short("and in Fortran order every frame needs the whole file"));
        }
        let mut stride = u64::try_from(self.header.stored.dtype.size()).unwrap_or(u64::MAX);
        let mut axes = Vec::with_capacity(self.header.shape.len());
        for &len in &self.header.shape {
            axes.push(Axis { len, stride });
            // Stays below `promised`, which fits.
            stride = stride.saturating_mul(u64::try_from(len).unwrap_or(u64::MAX));
        }
        let (nav_axes, sig_axes) = recut(&axes, self.frame_cells())?;
        Ok(Arc::new(StridedSource::try_new(StridedSpec {
            format: self.format,
            layout: StridedLayout {
                stored: self.header.stored,
                first_byte: self.header.data_start,
                nav_axes,
                sig_axes,
            },
            details: self.details(),
            warnings: self.surplus_warning(),
            metadata: self.metadata,
            storage: self.storage,
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
        })?))
    }

    /// Cells of one frame.
    fn frame_cells(&self) -> u64 {
        checked_product(&self.sig_shape).unwrap_or(u64::MAX)
    }

    fn details(&self) -> Vec<(String, String)> {
        let (major, minor) = self.header.version;
        let order = if self.header.fortran_order { "Fortran" } else { "C" };
        vec![
            ("NPY version".into(), format!("{major}.{minor}")),
            ("array shape".into(), format!("{:?}", self.header.shape)),
            ("array order".into(), order.into()),
        ]
    }

    fn surplus_warning(&self) -> Vec<String> {
        // Of a file that is cut short, the frames that are there are said.
        let Some(surplus) = self.found.checked_sub(self.promised) else { return Vec::new() };
        let behind = (surplus > 0)
            .then(|| format!("{surplus} bytes after the end of the array were left out"));
        FrameCount::within(self.promised, self.frame)
            .warning(self.frame)
            .into_iter()
            .chain(behind)
            .collect()
    }

    fn too_short(&self, consequence: &str) -> Error {
        Error::bad_file(format!(
            "the file is cut short: its header promises {} bytes of pixels in an array of shape \
             {:?}, {} are there, {consequence}",
            self.promised, self.header.shape, self.found
        ))
        .with_offset(self.storage.len())
        .with_hint("copy the file again")
    }
}

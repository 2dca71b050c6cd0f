//! A list of files, each with an image or a stack of images of the same size.
//!
//! Frames are in the order of the list, which is the caller's: names are not sorted.

use super::images::{self, Image};
use super::single::{COLOURS, Order};
use super::tags::Tags;
use super::{FORCE_C_ORDER, FORMAT, SAME_OFFSET};
use crate::access::{Storage, files};
use crate::headers::calibration::add_steps;
use crate::options::DATASET_INDEX;
use crate::options::OpenOptions;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{
    AxisKind, Dataset, Error, MetadataList, Result, StoredDType, checked_product,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the files as one stack.
///
/// # Errors
/// As for one file; `BadFile` that names the first file whose images are not like those of the
/// first one.
pub(super) fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Dataset> {
    let mut parts: Vec<LinearFile> = Vec::with_capacity(paths.len());
    let mut warnings = Vec::new();
    let mut first: Option<(Frames, Image, u32)> = None;
    let mut n_frames = 0u64;
    let mut sizes = files::PixelSizes::default();
    for path in paths {
        let storage = Storage::open(path, options.backend)?;
        let locate = |error: Error| error.with_path(path).with_format(FORMAT.name);
        let frames = match &first {
            Some((frames, ..)) if options.is_on(&SAME_OFFSET) => frames.clone(),
            _ => {
                let tags = Tags::read(&storage)?;
                let (image, odd) =
                    images::choose(&tags, options.count(&DATASET_INDEX)).map_err(locate)?;
                let frames = Frames::of(&image, options.is_on(&FORCE_C_ORDER)).map_err(locate)?;
                sizes.add(path, &frames.shape, &described(&image));
                if first.is_none() {
                    warnings = odd;
                    if image.is_colour {
                        warnings.push(COLOURS.to_owned());
                    }
                    first = Some((frames.clone(), image, tags.version));
                }
                frames
            }
        };
        if let Some((expected, ..)) = &first {
            expected.check(&frames).map_err(locate)?;
        }
        let start = n_frames;
        n_frames = start
            .checked_add(frames.n_frames)
            .ok_or_else(|| Error::limit("the files have too many frames"))?;
        parts.push(LinearFile {
            storage,
            frames: start..n_frames,
            first_pixel: frames.offset,
            stride: frames.frame_bytes,
        });
    }
    let Some((frames, image, version)) = first else {
        return Err(Error::invalid("the list of files is empty"));
    };
    let mut details = vec![
        ("DM version".to_owned(), version.to_string()),
        ("files".to_owned(), parts.len().to_string()),
    ];
    let mut metadata = described(&image);
    details.extend(image.details);
    warnings.extend(files::notes(paths));
    warnings.extend(sizes.warning());
    let sig_shape = frames.cut(options)?;
    metadata.lay_out(AxisKind::Sig, &frames.shape, &sig_shape);
    let n_frames = usize::try_from(n_frames).map_err(|_| Error::limit("too many frames"))?;
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: parts,
        pixels: Pixels::Plain { stored: frames.stored },
        sig_shape,
        nav_shape: vec![n_frames],
        metadata,
        details,
        warnings,
    })?;
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)
}

/// What is known of an image and of the axes of its frames.
fn described(image: &Image) -> MetadataList {
    let mut metadata = image.metadata.clone();
    if let Some((_, sig)) = image.steps.split_last_chunk::<2>() {
        add_steps(&mut metadata, &[], sig);
    }
    metadata
}

/// The frames of one file.
#[derive(Clone, Debug)]
struct Frames {
    shape: [usize; 2],
    stored: StoredDType,
    n_frames: u64,
    frame_bytes: u64,
    offset: u64,
}

impl Frames {
    fn of(image: &Image, force_c_order: bool) -> Result<Self> {
        let (nav, &[rows, columns]) = image.shape.split_last_chunk::<2>().ok_or_else(|| {
            Error::unsupported(format!(
                "image {} has a single axis ({:?}); stacks are made of images of two",
                image.index, image.shape
            ))
        })?;
        if Order::of(image, force_c_order) == Order::PositionsTogether {
            return Err(Error::unsupported(format!(
                "the axes {:?} of image {} are transposed; such files cannot be part of a stack",
                image.shape, image.index
            ))
            .with_hint("open the file alone, or set force_c_order if they are not"));
        }
        let n_frames = checked_product(nav).filter(|&n| n > 0);
        let n_frames = n_frames.ok_or_else(|| Error::bad_file("an image without frames"))?;
        Ok(Frames {
            shape: [rows, columns],
            stored: image.stored,
            n_frames,
            frame_bytes: image.len_bytes / n_frames,
            offset: image.offset,
        })
    }

    /// Whether these are frames like those of the first file.
    fn check(&self, other: &Frames) -> Result<()> {
        if self.shape == other.shape && self.stored == other.stored {
            return Ok(());
        }
        let shown = |frames: &Frames| {
            format!("{} x {} pixels in {}", frames.shape[0], frames.shape[1], frames.stored.dtype)
        };
        Err(Error::bad_file(format!(
            "its frames of {} are not like those of the first file, of {}",
            shown(other),
            shown(self)
        ))
        .with_offset(other.offset)
        .with_hint("leave the file out of the list"))
    }

    /// The shape of a frame: as the files have it, or as the caller wants the same cells.
    fn cut(&self, options: &OpenOptions) -> Result<Vec<usize>> {
        match &options.sig_shape {
            None => Ok(self.shape.to_vec()),
            Some(wanted) if checked_product(wanted) == checked_product(&self.shape) => {
                Ok(wanted.clone())
            }
            Some(wanted) => Err(Error::invalid(format!(
                "sig_shape {wanted:?} does not have as many pixels as the frames in the files, \
                 which are {} x {}",
                self.shape[0], self.shape[1]
            ))
            .with_hint("leave sig_shape out: the files know it")),
        }
    }
}

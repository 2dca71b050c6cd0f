//! Movies of cameras that are read out in two halves at once, DE's Celeritas.
//!
//! | name, for the movie `scan` | content |
//! |---|---|
//! | `scan_Top_TIME.seq` | the upper half of each frame, from the middle of the frame upwards |
//! | `scan_Bottom_TIME.seq` | the lower half, from the middle downwards |
//! | `scan.seq.Config.Metadata.xml` | `ImageSizeX` and `ImageSizeY`, the size of whole frames |
//! | `scan.seq.dark.mrc`, `scan.seq.gain.mrc` | images of whole frames |
//!
//! Each image of such a file is the halves of one or more frames (`SegmentPreBuffer`), one below the
//! other; `TIME` differs from half to half. The first stored pixel of each half is the number of the
//! frame. Sources: the description of RosettaSciIO's pull request 11 for the files; a movie of a
//! camera for the order of rows, in which `Bottom` is the lower half of the dark frame as it is
//! stored, and `Top`, as that reader puts it together, has its first row next to it.
//!
//! Where a half, the XML file or a size is missing or does not fit, a half is opened by itself, and a
//! warning says why. Lists of bad pixels are not used: how they are turned is not known.

use super::sidecars;
use super::{FORMAT, Header, Movie};
use crate::access::names;
use crate::headers::fields::read_small;
use crate::headers::geometry::square_or_line;
use crate::headers::xml::{self, Element};
use crate::options::ENABLE_CORRECTIONS;
use crate::options::OpenOptions;
use crate::readers::composed::{Blocks, ComposedSource, ComposedSpec, Piece};
use crate::readers::linear::{FrameDecoder, LinearFile, LinearSource, LinearSpec, Pixels};
use crate::readers::linear::{copy_pixels, full_row};
use framefold_core::{
    DataSource, Dataset, Error, MetadataList, Presence, Quantity, Result, SigSlice, SourceInfo,
    StoredDType,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const XML: &str = ".seq.Config.Metadata.xml";

/// The most images of several frames each; every one is a run of frames of its own.
const MOST_IMAGES: u64 = 1 << 20;

/// The files of one movie.
#[derive(Debug)]
pub(super) struct Halves {
    /// As in `scan.seq`, which is not there itself.
    movie: PathBuf,
    top: Vec<PathBuf>,
    bottom: Vec<PathBuf>,
}

/// The letters of the movie's name, and whether it is the upper half.
fn parse(path: &Path) -> Option<(String, bool)> {
    let name = names::letters(path.file_name()?);
    let (stem, extension) = name.rsplit_once('.')?;
    if !extension.eq_ignore_ascii_case("seq") {
        return None;
    }
    let mut parts = stem.match_indices('_').filter_map(|(at, _)| {
        let (movie, rest) = stem.split_at_checked(at)?;
        let is = |half: &str| {
            let after = rest.strip_prefix(half)?;
            (after.is_empty() || after.starts_with('_')).then_some(())
        };
        is("_Top").map(|()| (movie, true)).or(is("_Bottom").map(|()| (movie, false)))
    });
    let (movie, is_top) = parts.next_back().filter(|(movie, _)| !movie.is_empty())?;
    Some((movie.to_owned(), is_top))
}

impl Halves {
    /// The files beside `path`, if that is a half or the XML file of a movie in halves.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read.
    pub(super) fn find(path: &Path) -> Result<Option<Self>> {
        let name = path.file_name().map(names::letters).unwrap_or_default();
        let by_xml = name.strip_suffix(XML).filter(|movie| !movie.is_empty());
        let by_name = || parse(path).map(|(movie, _)| movie);
        let Some(movie) = by_xml.map(str::to_owned).or_else(by_name) else {
            return Ok(None);
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut found = Halves {
            movie: names::beside(path, &format!("{movie}.seq")),
            top: Vec::new(),
            bottom: Vec::new(),
        };
        let folder = folder.unwrap_or(Path::new("."));
        let unreadable = |error| Error::io("list the directory", error).with_path(folder);
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let beside = path.with_file_name(entry.map_err(unreadable)?.file_name());
            match parse(&beside) {
                Some((other, true)) if other == movie => found.top.push(beside),
                Some((other, false)) if other == movie => found.bottom.push(beside),
                _ => {}
            }
        }
        found.top.sort();
        found.bottom.sort();
        Ok((by_xml.is_none() || !found.top.is_empty() || !found.bottom.is_empty()).then_some(found))
    }

    /// Opens whole frames, or says why that cannot be.
    ///
    /// # Errors
    /// As those of files that are not in halves; `InvalidArgument` for another `sig_shape`.
    pub(super) fn open(
        &self,
        options: &OpenOptions,
    ) -> Result<std::result::Result<Dataset, String>> {
        let xml_path = self.beside(XML);
        let (top, bottom) = match (self.top.as_slice(), self.bottom.as_slice()) {
            ([top], [bottom]) => (top, bottom),
            (top, bottom) => {
                return Ok(Err(format!(
                    "the movie '{}' has {} upper and {} lower halves beside it, expected one of each",
                    self.movie.display(),
                    top.len(),
                    bottom.len()
                )));
            }
        };
        if !xml_path.exists() {
            return Ok(Err(format!(
                "'{}', which tells the size of whole frames, is not there",
                xml_path.display()
            )));
        }
        let bytes = read_small(&xml_path, xml::MAX_LEN)?;
        let root = Element::parse(&bytes).map_err(|error| error.with_path(&xml_path))?;
        let (top, bottom) = (Movie::open(top, options)?, Movie::open(bottom, options)?);
        let size = match whole_size(&root, &top.header, &bottom.header) {
            Ok(size) => size,
            Err(reason) => return Ok(Err(reason)),
        };
        self.join(&root, top, bottom, size, options).map(Ok)
    }

    fn beside(&self, end: &str) -> PathBuf {
        names::beside(&self.movie, &format!("{}{end}", names::stem(&self.movie)))
    }

    fn join(
        &self,
        root: &Element,
        top: Movie,
        bottom: Movie,
        sig_shape: [usize; 2],
        options: &OpenOptions,
    ) -> Result<Dataset> {
        if options.sig_shape.as_deref().is_some_and(|wanted| wanted != sig_shape) {
            return Err(Error::invalid(format!(
                "sig_shape {:?} is not that of the frames, {sig_shape:?}, which are joined from two \
                 halves",
                options.sig_shape.as_deref().unwrap_or_default()
            ))
            .with_hint("leave sig_shape out: the files know it"));
        }
        let half = [sig_shape[0] / 2, sig_shape[1]];
        let mut warnings = Vec::new();
        for (name, movie) in [("upper", &top), ("lower", &bottom)] {
            warnings.extend(movie.warnings.iter().map(|text| format!("{name} halves: {text}")));
        }
        let per_image = u64::from(top.header.height) / u64::try_from(half[0]).unwrap_or(1).max(1);
        let n_images = top.n_frames.min(bottom.n_frames);
        if top.n_frames != bottom.n_frames {
            warnings.push(format!(
                "there are {} images of upper and {} of lower halves: those without another half \
                 were left out",
                top.n_frames, bottom.n_frames
            ));
        }
        let n_frames = n_images.saturating_mul(per_image);
        let n_lost = top.n_lost.zip(bottom.n_lost).map(|(of_top, of_bottom)| {
            let counted = (top.n_frames + of_top).min(bottom.n_frames + of_bottom);
            (counted - n_images).saturating_mul(per_image)
        });
        let stored = top.header.stored;
        let mut metadata = bottom.header.metadata.clone();
        let mut details = bottom.header.details.clone();
        details.push(("frames in each image".into(), per_image.to_string()));
        add_times(root, &bottom, n_images, &mut metadata, &mut details)?;
        let mut corrections = None;
        if options.switch(&ENABLE_CORRECTIONS) != Some(false) {
            let found = sidecars::find(&self.movie, sig_shape).map_err(|error| {
                error.with_hint("repair the file, or open the data with enable_corrections=False")
            })?;
            metadata = found.metadata_over(metadata);
            let paths = found.paths.iter().map(|path| path.display().to_string());
            details.extend(paths.map(|path| ("sidecar".into(), path)));
            warnings.extend(found.warnings.iter().cloned());
            if root.all("Defect").is_empty() {
                corrections = found.corrections(&sig_shape, &mut warnings)?;
            } else {
                corrections = found.without_bad_pixels().corrections(&sig_shape, &mut warnings)?;
                warnings.push(
                    "the list of bad pixels is not used: how it is turned is not known for frames in \
                     two halves"
                        .into(),
                );
            }
        }
        let paths = vec![top.path.clone(), bottom.path.clone()];
        let sources: Vec<Arc<dyn DataSource>> = vec![
            Arc::new(source(top, n_images, per_image, half, true)?),
            Arc::new(source(bottom, n_images, per_image, half, false)?),
        ];
        let nav_shape = square_or_line(n_frames);
        let piece = |number: usize| Piece {
            source: Some(number),
            shown: vec![Blocks::one(0..n_frames)],
            taken: vec![Blocks::one(0..n_frames)],
            taken_shape: vec![n_frames],
            origin: vec![number * half[0], 0],
            shape: half.to_vec(),
            axes: vec![(0, 0), (1, 0)],
        };
        let whole = ComposedSource::try_new(ComposedSpec {
            info: SourceInfo {
                format: FORMAT.name,
                paths,
                n_frames,
                presence: Presence::All,
                sig_shape: sig_shape.to_vec(),
                nav_shape,
                dtype: stored,
                base_shape: full_row(&sig_shape),
                preferred_depth: 1,
                lends: false,
                metadata,
                details,
                warnings,
            },
            sources,
            pieces: vec![piece(0), piece(1)],
            fill: vec![0; stored.dtype.size()],
            nav_shape: vec![n_frames],
            fills_frames: false,
        })?;
        Dataset::try_new(Arc::new(whole), options.nav_shape.as_deref(), options.sync_offset)?
            .with_lost_frames(n_lost)
            .with_corrections(corrections.map(Arc::new))
    }
}

/// The shape of whole frames, if both files can hold halves of them.
fn whole_size(
    root: &Element,
    top: &Header,
    bottom: &Header,
) -> std::result::Result<[usize; 2], String> {
    let number = |name: &str| {
        let value = root.path(&["FileInfo", name]).and_then(|found| found.attribute("Value"));
        value.and_then(|text| text.parse::<u32>().ok()).filter(|&n| n > 0)
    };
    let (Some(width), Some(height)) = (number("ImageSizeX"), number("ImageSizeY")) else {
        return Err("the XML file does not tell ImageSizeX and ImageSizeY".into());
    };
    let fits = |file: &Header| {
        file.width == width && height.is_multiple_of(2) && file.height.is_multiple_of(height / 2)
    };
    if !fits(top) || !fits(bottom) || top.height != bottom.height || top.stored != bottom.stored {
        return Err(format!(
            "images of {} x {} and {} x {} pixels (rows x columns) do not hold halves of frames of \
             {height} x {width}, which the XML file tells",
            top.height, top.width, bottom.height, bottom.width
        ));
    }
    Ok([height, width].map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)))
}

/// When images were recorded, and the time from frame to frame, of which the header of the file has
/// that from image to image.
fn add_times(
    root: &Element,
    movie: &Movie,
    n_images: u64,
    metadata: &mut MetadataList,
    details: &mut Vec<(String, String)>,
) -> Result<()> {
    let rate = root.path(&["FileInfo", "FrameRate"]).and_then(|found| found.attribute("Value"));
    let rate = rate.and_then(|text| text.parse::<f64>().ok()).filter(|&rate| rate > 0.0);
    metadata.positive(Quantity::FrameTime, rate.map(|rate| 1.0 / rate));
    if let Some(first) = movie.header.time(&movie.storage, 0)? {
        metadata.text(Quantity::RecordedAt, first.to_string().as_str());
    }
    if let Some(last) = movie.header.time(&movie.storage, n_images.saturating_sub(1))? {
        details.push(("last image recorded at".to_owned(), last.to_string()));
    }
    Ok(())
}

/// The halves that one file holds.
fn source(
    movie: Movie,
    n_images: u64,
    per_image: u64,
    half: [usize; 2],
    upwards: bool,
) -> Result<LinearSource> {
    let Movie { header, storage, .. } = movie;
    let half_bytes = header.frame_bytes() / per_image.max(1);
    let file = |first: u64, frames: Range<u64>, stride: u64| LinearFile {
        storage: storage.clone(),
        frames,
        first_pixel: header.offset(first),
        stride,
    };
    let files = if per_image == 1 {
        vec![file(0, 0..n_images, header.stride)]
    } else if n_images <= MOST_IMAGES {
        let frames = |image: u64| image * per_image..(image + 1) * per_image;
        (0..n_images).map(|image| file(image, frames(image), half_bytes)).collect()
    } else {
        return Err(Error::limit(format!(
            "{n_images} images of several frames each are more than the {MOST_IMAGES} that are read"
        )));
    };
    let stored = header.stored;
    let decoder = Arc::new(Upwards { stored, shape: half });
    LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files,
        pixels: if upwards { Pixels::Coded { decoder, stored } } else { Pixels::Plain { stored } },
        sig_shape: half.to_vec(),
        nav_shape: square_or_line(n_images * per_image),
        metadata: MetadataList::new(),
        details: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Pixels whose last row is stored first.
#[derive(Debug)]
struct Upwards {
    stored: StoredDType,
    shape: [usize; 2],
}

impl Upwards {
    /// The stored rows of the slice, of which the last one is shown first.
    fn rows(&self, sig: &SigSlice) -> Range<usize> {
        let first = sig.origin().first().copied().unwrap_or(0);
        let n = sig.shape().first().copied().unwrap_or(0);
        self.shape[0].saturating_sub(first + n)..self.shape[0].saturating_sub(first)
    }

    fn row_bytes(&self) -> usize {
        self.shape[1] * self.stored.dtype.size()
    }
}

impl FrameDecoder for Upwards {
    fn stored_len(&self) -> usize {
        self.shape[0] * self.row_bytes()
    }

    fn stored_range(&self, sig: &SigSlice) -> Range<usize> {
        let rows = self.rows(sig);
        rows.start * self.row_bytes()..rows.end * self.row_bytes()
    }

    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        let size = self.stored.dtype.size();
        let columns = match (sig.origin(), sig.shape()) {
            ([_, first], [_, n]) => first * size..(first + n) * size,
            _ => 0..0,
        };
        let wrong = || Error::bug(format!("half a frame does not fit {sig:?}"));
        if columns.is_empty() || out.len() != self.rows(sig).len() * columns.len() {
            return Err(wrong());
        }
        let rows = stored.chunks_exact(self.row_bytes()).rev();
        for (row, out) in rows.zip(out.chunks_exact_mut(columns.len())) {
            copy_pixels(self.stored, row.get(columns.clone()).ok_or_else(wrong)?, out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_halves() {
        for (name, expected) in [
            ("Movie_00785_Top_13-49-04.160.seq", Some(("Movie_00785", true))),
            ("Movie_00785_Bottom_13-49-04.196.seq", Some(("Movie_00785", false))),
            ("a_Bottom.SEQ", Some(("a", false))),
            ("a_Top_Bottom_1.seq", Some(("a_Top", false))),
            ("_Top_1.seq", None),
            ("a_Topmost_1.seq", None),
            ("a_Top_1.seq.metadata", None),
            ("scan.seq", None),
        ] {
            let found = parse(Path::new(name));
            assert_eq!(found.as_ref().map(|(movie, top)| (&**movie, *top)), expected, "{name}");
        }
    }
}

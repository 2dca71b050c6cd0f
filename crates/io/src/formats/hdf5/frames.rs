//! Data sets of a file as frames, and the source that fits where their pixels lie.

use super::array::{Array, Place};
use super::chunk_table::NoChunks;
use super::find::Found;
use super::library::Library;
use super::{FORMAT, delmic, dm5, metadata, topspin, values, velox};
use crate::codec::Pipeline;
use crate::headers::axes::{check_sig_shape, sig_axes};
use crate::headers::packed::Packed;
use crate::options::OpenOptions;
use crate::readers::chunked::{ChunkStore, ChunkedSource, Geometry, GeometrySpec, Segment};
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use crate::readers::recut::Axis;
use crate::readers::strided::{StridedLayout, StridedSource, StridedSpec};
use framefold_core::{
    DataSource, Error, MetadataList, Presence, Result, SourceInfo, StoredDType, checked_product,
};
use std::sync::Arc;

/// The arrays of a data set, and how they are frames.
pub(super) struct Frames {
    pub(super) arrays: Vec<Array>,
    /// Which frames each of them holds.
    pub(super) frames: Vec<std::ops::Range<u64>>,
    pub(super) nav_axes: Vec<usize>,
    pub(super) sig_axes: Vec<usize>,
    pub(super) sig_shape: Vec<usize>,
    pub(super) nav_shape: Vec<usize>,
    pub(super) metadata: MetadataList,
    pub(super) details: Vec<(String, String)>,
    pub(super) warnings: Vec<String>,
    /// Whether files are not there that are behind all others of their set: nothing tells how many frames they have.
    pub(super) lacks_end: bool,
    /// The dtype in which a virtual data set shows them, if they are virtual themselves.
    pub(super) shown_as: Option<StoredDType>,
}

impl Frames {
    /// # Errors
    /// Those of opening the arrays; `BadFile` if they do not belong together.
    pub(super) fn read(library: &Library, found: &Found, options: &OpenOptions) -> Result<Self> {
        let mut arrays: Vec<Array> = vec![];
        let mut numbers = vec![];
        let mut missing = vec![];
        let mut packed = Packed::default();
        for (path, number) in &found.parts {
            let dataset = library.dataset(path).and_then(|(dataset, owner)| {
                if arrays.is_empty() {
                    packed = values::packed(&dataset);
                }
                let first = dataset.attribute("image_nr_low").ok();
                let first = first.and_then(|attribute| attribute.read_as_f64().ok());
                Ok((Array::try_new(library, &dataset, owner)?, first))
            });
            match dataset {
                Ok((array, first)) => {
                    numbers.push((*number, first));
                    arrays.push(array);
                }
                // Of a set of files, some may not be there.
                Err(error) if number.is_some() && error.message().contains("is not there") => {
                    missing.push((path, error));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(first) = arrays.first() else {
            return Err(match missing.pop() {
                Some((_, error)) => error,
                None => Error::bug("no data set was chosen"),
            });
        };
        let shape = first.shape.clone();
        let dtype = first.dtype;
        let sig_axes = sig_axes(&shape, found.sig_axes.as_deref(), options)?;
        // Only the number of images may be another one in each part: that is the first of more than two
        // axes, where it is none of a frame.
        let counts_images = shape.len() > 2 && !sig_axes.contains(&0);
        for array in &arrays {
            let same = usize::from(counts_images);
            let fits =
                array.shape.len() == shape.len() && array.shape.get(same..) == shape.get(same..);
            if !fits || array.dtype != dtype {
                return Err(array.owner.locate(Error::bad_file(format!(
                    "this file of the set holds an array of shape {:?} and dtype {}, but the first \
                     one {shape:?} and {dtype}",
                    array.shape, array.dtype
                ))));
            }
        }
        let mut nav_axes: Vec<usize> =
            (0..shape.len()).filter(|axis| !sig_axes.contains(axis)).collect();
        if found.dialect == "Velox" {
            velox::order(&mut nav_axes, &sig_axes);
        }
        let lens = |axes: &[usize]| -> Vec<usize> {
            axes.iter().filter_map(|&axis| shape.get(axis).copied()).collect()
        };
        let sig_shape = lens(&sig_axes);
        check_sig_shape(options, &shape, &sig_shape)?;
        let smallest = found.parts.iter().filter_map(|(_, number)| *number).min();
        let largest = found.parts.iter().filter_map(|(_, number)| *number).max();
        let lacks_end = numbers.iter().filter_map(|(number, _)| *number).max() < largest;
        let frames = places(&arrays, &numbers, smallest, &nav_axes, counts_images)?;
        let n_frames = frames.last().map_or(0, |frames| frames.end);
        let nav_shape = if let [(_, None)] = found.parts.as_slice() {
            let scan = match found.dialect {
                delmic::NAME => lens(&delmic::nav_axes(&sig_axes, &nav_axes)),
                _ => lens(&nav_axes),
            };
            Some(scan).filter(|nav| !nav.is_empty()).unwrap_or_else(|| vec![1])
        } else if found.dialect == delmic::NAME && n_frames == found.parts.len() as u64 {
            delmic::scan(library, &found.parts).0
        } else {
            let scan =
                (found.dialect == "TopSpin").then(|| topspin::scan(library, found)).flatten();
            let of_image = lens(nav_axes.get(usize::from(counts_images)..).unwrap_or_default());
            match scan {
                Some((shape, _)) => [shape, of_image].concat(),
                None => one_after_the_other(n_frames, &of_image),
            }
        };
        let mut warnings = vec![];
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|(path, _)| path.as_str()).collect();
            warnings.push(format!(
                "{} files of the set are not there ({}): their frames are missing",
                names.len(),
                names.join(", ")
            ));
        }
        let image = found.parts.first().and_then(|(path, _)| dm5::Image::at(library, path));
        warnings.extend(image.and_then(|image| image.doubt(&shape, &sig_axes)));
        let said = metadata::read(library, found, &nav_axes, &sig_axes);
        let mut details = details(found, &arrays);
        details.extend(said.others);
        details.extend(packed.details());
        warnings
            .extend(found.warning.clone().into_iter().chain(said.warning).chain(packed.warning()));
        Ok(Frames {
            arrays,
            frames,
            nav_axes,
            sig_axes,
            sig_shape,
            nav_shape,
            metadata: said.metadata,
            details,
            warnings,
            lacks_end,
            shown_as: None,
        })
    }

    /// All of one array; of which axes are not those of a frame, each counts frames.
    ///
    /// # Errors
    /// `BadFile` if there are too many frames.
    pub(super) fn of_one(array: Array, sig_axes: Vec<usize>) -> Result<Self> {
        let nav_axes: Vec<usize> =
            (0..array.shape.len()).filter(|axis| !sig_axes.contains(axis)).collect();
        let lens = |axes: &[usize]| -> Vec<usize> {
            axes.iter().filter_map(|&axis| array.shape.get(axis).copied()).collect()
        };
        let (nav, sig_shape) = (lens(&nav_axes), lens(&sig_axes));
        let n_frames = checked_product(&nav)
            .ok_or_else(|| array.owner.locate(Error::bad_file("there are too many frames")))?;
        Ok(Frames {
            arrays: vec![array],
            #[expect(clippy::single_range_in_vec_init, reason = "one array, one range of frames")]
            frames: vec![0..n_frames],
            nav_shape: if nav.is_empty() { vec![1] } else { nav },
            nav_axes,
            sig_axes,
            sig_shape,
            metadata: MetadataList::new(),
            details: vec![],
            warnings: vec![],
            lacks_end: false,
            shown_as: None,
        })
    }

    /// The dtype of all arrays.
    fn dtype(&self) -> Result<StoredDType> {
        let first = self.arrays.first().ok_or_else(|| Error::bug("frames without an array"))?;
        Ok(first.dtype)
    }

    /// Every frame in one run of bytes.
    pub(super) fn linear(self) -> Result<Arc<dyn DataSource>> {
        let stored = self.dtype()?;
        let stride = crate::readers::linear::frame_bytes(&self.sig_shape, stored)?;
        let files = self.arrays.into_iter().zip(self.frames).filter_map(|(array, frames)| {
            let Place::Run { storage, first_byte } = array.pixels else { return None };
            Some(LinearFile { storage, frames, first_pixel: first_byte, stride })
        });
        Ok(Arc::new(LinearSource::try_new(LinearSpec {
            format: FORMAT.name,
            files: files.collect(),
            pixels: Pixels::Plain { stored },
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            metadata: self.metadata,
            details: self.details,
            warnings: self.warnings,
        })?))
    }

    /// Frames that are spread over the array.
    pub(super) fn strided(mut self) -> Result<Arc<dyn DataSource>> {
        let Some(Array { shape, dtype, pixels: Place::Run { storage, first_byte }, .. }) =
            self.arrays.pop()
        else {
            return Err(Error::bug("an array without pixels"));
        };
        let mut stride = u64::try_from(dtype.dtype.size()).unwrap_or(u64::MAX);
        let mut axes = Vec::with_capacity(shape.len());
        for &len in shape.iter().rev() {
            axes.push(Axis { len, stride });
            stride = stride.saturating_mul(u64::try_from(len).unwrap_or(u64::MAX));
        }
        axes.reverse();
        let pick = |numbers: &[usize]| -> Vec<Axis> {
            numbers.iter().filter_map(|&axis| axes.get(axis).copied()).collect()
        };
        Ok(Arc::new(StridedSource::try_new(StridedSpec {
            format: FORMAT.name,
            storage,
            layout: StridedLayout {
                stored: dtype,
                first_byte,
                nav_axes: pick(&self.nav_axes),
                sig_axes: pick(&self.sig_axes),
            },
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            metadata: self.metadata,
            details: self.details,
            warnings: self.warnings,
        })?))
    }

    /// Frames in chunks, or not written at all.
    pub(super) fn chunked(self) -> Result<Arc<dyn DataSource>> {
        let dtype = self.dtype()?;
        let paths = self.arrays.iter().filter_map(|a| Some(a.owner.storage.path()?.to_path_buf()));
        let mut paths: Vec<_> = paths.collect();
        paths.dedup();
        let presence = if self.frames.is_sorted_by(|one, next| one.end == next.start)
            && self.frames.first().is_none_or(|first| first.start == 0)
        {
            Presence::All
        } else {
            Presence::Ranges(self.frames.clone())
        };
        let mut segments = Vec::with_capacity(self.arrays.len());
        for (array, frames) in self.arrays.into_iter().zip(self.frames.clone()) {
            let whole_frame = || -> Vec<usize> {
                let numbered = array.shape.iter().enumerate();
                numbered.map(|(i, &n)| if self.sig_axes.contains(&i) { n } else { 1 }).collect()
            };
            let (chunk, pipeline, store): (_, _, Box<dyn ChunkStore>) = match array.pixels {
                Place::Chunks { shape, pipeline, store } => (shape, pipeline, Box::new(store)),
                Place::Nowhere => (whole_frame(), Pipeline::default(), Box::new(NoChunks)),
                Place::Run { .. } | Place::Virtual(_) => {
                    return Err(Error::bug("an array that is not in chunks"));
                }
            };
            let geometry = Geometry::try_new(&GeometrySpec {
                shape: array.shape,
                chunk,
                nav_axes: self.nav_axes.clone(),
                sig_axes: self.sig_axes.clone(),
            })?;
            segments.push(Segment { frames, geometry, pipeline, fill: array.fill, store });
        }
        let info = SourceInfo {
            format: FORMAT.name,
            paths,
            n_frames: self.frames.last().map_or(0, |frames| frames.end),
            presence,
            base_shape: self.sig_shape.clone(),
            sig_shape: self.sig_shape,
            nav_shape: self.nav_shape,
            dtype,
            preferred_depth: 1,
            lends: false,
            metadata: self.metadata,
            details: self.details,
            warnings: self.warnings,
        };
        Ok(Arc::new(ChunkedSource::try_new(info, segments)?))
    }
}

/// Which frames each array holds: one after the other, unless they say themselves. Their numbers count
/// from `smallest`; `counts_images` says that the first axis is that of images.
fn places(
    arrays: &[Array],
    numbers: &[(Option<u64>, Option<f64>)],
    smallest: Option<u64>,
    nav_axes: &[usize],
    counts_images: bool,
) -> Result<Vec<std::ops::Range<u64>>> {
    let too_many = || Error::bad_file("there are too many frames");
    let lens_of = |array: &Array| -> Vec<usize> {
        nav_axes.iter().filter_map(|&axis| array.shape.get(axis).copied()).collect()
    };
    let n_frames_of = |array: &Array| checked_product(&lens_of(array)).ok_or_else(too_many);
    // One that is missing is taken to be as long as the longest.
    let longest = arrays.iter().map(n_frames_of).try_fold(0, |most, n| n.map(|n| n.max(most)))?;
    let mut frames: Vec<std::ops::Range<u64>> = vec![];
    let mut next = smallest;
    for (array, (number, low)) in arrays.iter().zip(numbers) {
        let (lens, n_frames) = (lens_of(array), n_frames_of(array)?);
        let end = frames.last().map_or(0, |last| last.end);
        let missing = number.and_then(|number| number.checked_sub(next?)).unwrap_or(0);
        next = number.and_then(|number| number.checked_add(1));
        // The number of the first image, from 1 on, where the frames are those of images.
        let low = low.filter(|low| counts_images && number.is_some() && *low >= 1.0 && *low < 9e15);
        let start = match low {
            Some(low) => {
                let of_image =
                    lens.first().and_then(|&n| n_frames.checked_div(u64::try_from(n).ok()?));
                (low as u64 - 1).checked_mul(of_image.unwrap_or(0)).ok_or_else(too_many)?
            }
            None => missing
                .checked_mul(longest)
                .and_then(|n| end.checked_add(n))
                .ok_or_else(too_many)?,
        };
        if start < end {
            return Err(array.owner.locate(Error::bad_file(format!(
                "the file says that its first frame is {start}, but other files of the set hold \
                 those before {end}"
            ))));
        }
        frames.push(start..start.checked_add(n_frames).ok_or_else(too_many)?);
    }
    Ok(frames)
}

/// The scan shape for the images of several data sets, each of which may have positions of its own.
fn one_after_the_other(n_frames: u64, of_image: &[usize]) -> Vec<usize> {
    match checked_product(of_image) {
        None | Some(0 | 1) => square(n_frames),
        Some(n) => [&[usize::try_from(n_frames / n).unwrap_or(usize::MAX)], of_image].concat(),
    }
}

/// The scan shape for frames without one: a square, if there are so many.
fn square(n_frames: u64) -> Vec<usize> {
    let n_frames = usize::try_from(n_frames).unwrap_or(usize::MAX);
    let side = n_frames.isqrt();
    if side * side == n_frames { vec![side, side] } else { vec![n_frames] }
}

fn details(found: &Found, arrays: &[Array]) -> Vec<(String, String)> {
    let mut details = vec![("HDF5 dialect".into(), found.dialect.into())];
    let (Some((path, _)), Some(first)) = (found.parts.first(), arrays.first()) else {
        return details;
    };
    let name = if found.parts.len() == 1 {
        format!("/{path}")
    } else {
        format!("/{path} and {} more", found.parts.len() - 1)
    };
    details.push(("data set".into(), name));
    if let Some(others) = &found.others {
        details.push(("other data sets".into(), others.clone()));
    }
    details.push(("array shape".into(), format!("{:?}", first.shape)));
    match &first.pixels {
        Place::Run { .. } => details.push(("layout".into(), "contiguous".into())),
        Place::Virtual(set) => {
            let n = set.members.len();
            details.push(("layout".into(), format!("virtual, of {n} parts of other data sets")));
        }
        Place::Nowhere => details.push(("layout".into(), "nothing was written".into())),
        Place::Chunks { shape, pipeline, store } => {
            details.push(("chunk shape".into(), format!("{shape:?}")));
            details.push(("chunks written".into(), format!("{}", store.len())));
            details.push(("stored bytes".into(), format!("{}", store.stored_bytes())));
            details.push(("filters".into(), pipeline.to_string()));
        }
    }
    details
}

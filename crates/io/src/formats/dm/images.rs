//! The images of a DM file: what they are, and which one is meant.

use super::metadata::{calibrations, of_image};
use super::tags::{Group, TagArray, Tags, Value};
use crate::headers::calibration::Calibration;
use framefold_core::{DType, Error, MetadataList, Result, StoredDType};

/// More images than this are not looked at; real files have a handful.
const MAX_IMAGES: usize = 1 << 12;
/// Real files have no more than 5.
const MAX_AXES: usize = 8;

/// One image of a file.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// Its place in the file's list, thumbnails included.
    pub(super) index: usize,
    /// The lengths of its axes, slowest first.
    pub(super) shape: Vec<usize>,
    /// Its pixels.
    pub(super) stored: StoredDType,
    /// The offset of the first one. All of them are in the file.
    pub(super) offset: u64,
    /// Bytes of pixels.
    pub(super) len_bytes: u64,
    /// Whether each position has a spectrum instead of an image.
    pub(super) is_spectrum_image: bool,
    /// Whether it is one spectrum, which may be shown as an image of one row.
    pub(super) is_spectrum: bool,
    /// Whether the pixels of a frame lie together, if the file says so.
    pub(super) order_swapped: Option<bool>,
    /// Whether a pixel is four bytes of colour.
    pub(super) is_colour: bool,
    /// The steps on its axes, slowest first.
    pub(super) steps: Vec<Option<Calibration>>,
    /// What the tags know about it.
    pub(super) metadata: MetadataList,
    /// What else is worth showing to a person.
    pub(super) details: Vec<(String, String)>,
}

/// The image that is meant: the one at `wanted`, or else the first that is not a thumbnail and can
/// be read; and what is odd about that choice.
///
/// # Errors
/// `BadFile` if there is no image, or the one that is wanted is damaged; `InvalidArgument` if it
/// is not there; `Unsupported` if its pixels are none that framefold reads.
pub(super) fn choose(tags: &Tags, wanted: Option<usize>) -> Result<(Image, Vec<String>)> {
    let list: Vec<Group<'_>> = match tags.root().group(&["ImageList"]) {
        Some(list) => {
            list.entries().filter_map(|(_, entry)| entry.group()).take(MAX_IMAGES).collect()
        }
        None => Vec::new(),
    };
    if list.is_empty() {
        return Err(Error::bad_file("the file has tags but no image (no 'ImageList')")
            .with_hint("a .gtg file belongs to raw data of a K2: open it as 'k2is'"));
    }
    let with_data = |group: &Group<'_>| group.array(&["ImageData", "Data"]).is_some();
    let n_images = list.len();
    if let Some(index) = wanted {
        let image = list.get(index).filter(|group| with_data(group)).ok_or_else(|| {
            Error::invalid(format!("there is no image {index}"))
                .with_hint(format!("the file has {n_images} images, counted from 0"))
        })?;
        return Ok((read(tags, *image, index)?, Vec::new()));
    }
    let (thumbnails, odd) = thumbnails(tags, &list);
    let mut chosen: Option<Image> = None;
    let mut refused: Option<Error> = None;
    let mut others = Vec::new();
    for (index, group) in list.iter().enumerate() {
        if thumbnails.contains(&index) || !with_data(group) {
            continue;
        }
        if chosen.is_some() {
            others.push(index.to_string());
            continue;
        }
        match read(tags, *group, index) {
            Ok(image) => chosen = Some(image),
            Err(error) => {
                refused.get_or_insert(error);
                others.push(index.to_string());
            }
        }
    }
    let Some(image) = chosen else {
        return Err(refused.unwrap_or_else(|| {
            Error::bad_file("the file has no image but thumbnails, or what is taken for them")
                .with_hint("to read one of those, name it with dataset_index")
        }));
    };
    let mut warnings = Vec::from_iter(odd);
    if !others.is_empty() {
        warnings.push(format!(
            "the file has several images: this is number {}; dataset_index chooses another one ({})",
            image.index,
            others.join(", ")
        ));
    }
    Ok((image, warnings))
}

/// The images that only show what is in the file: those that its list of thumbnails names, and, if it
/// names no picture in colours, all of these; and a word about them.
fn thumbnails(tags: &Tags, images: &[Group<'_>]) -> (Vec<usize>, Option<String>) {
    // In a file with a single image, it is what was saved.
    if images.len() < 2 {
        return (Vec::new(), None);
    }
    let is_picture = |index: &usize| {
        let code = images.get(*index).and_then(|image| image.integer(&["ImageData", "DataType"]));
        code.is_some_and(is_colour)
    };
    let index = |entry: Group<'_>| usize::try_from(entry.integer(&["ImageIndex"])?).ok();
    let entries = tags.root().group(&["Thumbnails"]).into_iter().flat_map(Group::entries);
    let named = entries.filter_map(|(_, entry)| index(entry.group()?));
    let mut thumbnails: Vec<usize> = named.take(MAX_IMAGES).collect();
    if thumbnails.iter().any(is_picture) {
        return (thumbnails, None);
    }
    // Programs make them in colours: where none is named, the list is damaged or was lost.
    let pictures: Vec<usize> = (0..images.len()).filter(is_picture).collect();
    let odd = (!pictures.is_empty()).then(|| {
        let numbers: Vec<String> = pictures.iter().map(usize::to_string).collect();
        format!(
            "the list of thumbnails of the file is damaged or not there: its pictures in colours \
             ({}) are taken for thumbnails; dataset_index chooses another image",
            numbers.join(", ")
        )
    });
    thumbnails.extend(pictures);
    (thumbnails, odd)
}

fn read(tags: &Tags, group: Group<'_>, index: usize) -> Result<Image> {
    let data = group.array(&["ImageData", "Data"]);
    let data = data.ok_or_else(|| Error::bad_file(format!("image {index} has no data")))?;
    let located = |error: Error| error.with_offset(data.offset);
    let shape = shape(group, index).map_err(located)?;
    let code = group.integer(&["ImageData", "DataType"]).ok_or_else(|| {
        located(Error::bad_file(format!("image {index} does not say what its pixels are")))
    })?;
    let dtype = dtype(code).ok_or_else(|| located(refusal(index, code)))?;
    let pixel_bytes = u64::try_from(dtype.size()).unwrap_or(u64::MAX);
    let len_bytes = framefold_core::checked_product(&shape)
        .and_then(|pixels| pixels.checked_mul(pixel_bytes))
        .filter(|&len| len == data.len_bytes)
        .ok_or_else(|| located(too_short(index, &shape, dtype, data)))?;
    let tags_of = |name: &'static str| ["ImageTags", "Meta Data", name];
    let format = group.text(&tags_of("Format")).unwrap_or_default();
    let order_swapped = group.integer(&tags_of("Data Order Swapped")).map(|swapped| swapped != 0);
    Ok(Image {
        index,
        stored: StoredDType { dtype, order: tags.order },
        offset: data.offset,
        len_bytes,
        is_spectrum_image: format.eq_ignore_ascii_case("Spectrum image"),
        is_spectrum: format.trim().eq_ignore_ascii_case("Spectrum"),
        order_swapped,
        is_colour: is_colour(code),
        steps: calibrations(group, shape.len()).into_iter().rev().collect(),
        metadata: of_image(group),
        details: details(group, format, &shape),
        shape,
    })
}

/// The lengths of the axes, slowest first.
fn shape(group: Group<'_>, index: usize) -> Result<Vec<usize>> {
    let lengths = group.group(&["ImageData", "Dimensions"]);
    let mut shape = Vec::new();
    for (_, length) in lengths.into_iter().flat_map(Group::entries).take(MAX_AXES + 1) {
        let length = match length.value() {
            Value::Integer(length) => usize::try_from(*length).ok().filter(|&length| length > 0),
            _ => None,
        };
        shape.push(length.ok_or_else(|| {
            Error::bad_file(format!("an axis of image {index} has no length, or one of 0"))
        })?);
    }
    if shape.is_empty() || shape.len() > MAX_AXES {
        return Err(Error::bad_file(format!(
            "image {index} has {} axes, expected 1 to {MAX_AXES}",
            shape.len()
        )));
    }
    shape.reverse();
    Ok(shape)
}

/// Whether pixels of that type are four bytes of colour.
fn is_colour(code: i128) -> bool {
    matches!(code, 8 | 23)
}

fn dtype(code: i128) -> Option<DType> {
    Some(match code {
        1 => DType::I16,
        2 => DType::F32,
        3 => DType::C64,
        6 => DType::U8,
        7 => DType::I32,
        9 => DType::I8,
        10 => DType::U16,
        // Four bytes of colour make one number, as in other readers.
        8 | 11 | 23 => DType::U32,
        12 => DType::F64,
        13 => DType::C128,
        14 => DType::Bool,
        _ => return None,
    })
}

fn refusal(index: usize, code: i128) -> Error {
    let what = match code {
        5 | 27 | 28 => "half of a Fourier transform, packed",
        _ => "none that is known",
    };
    Error::unsupported(format!("the pixels of image {index} are of type {code}: {what}"))
        .with_hint("save it as real or complex numbers, or choose another image with dataset_index")
}

fn too_short(index: usize, shape: &[usize], dtype: DType, data: TagArray) -> Error {
    Error::bad_file(format!(
        "image {index} is to have the shape {shape:?} in {dtype}, but its data are {} elements in \
         {} bytes",
        data.count, data.len_bytes
    ))
    .with_hint("the file is damaged; save it again")
}

/// What the tags say about an image beyond what all formats know, for people to read.
fn details(group: Group<'_>, format: &str, shape: &[usize]) -> Vec<(String, String)> {
    let signal = group.text(&["ImageTags", "Meta Data", "Signal"]).unwrap_or_default();
    [
        ("data format", format.to_owned()),
        ("signal", signal.to_owned()),
        ("stored axes", format!("{shape:?}")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.trim().is_empty())
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

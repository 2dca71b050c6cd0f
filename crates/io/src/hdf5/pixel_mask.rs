//! Which pixels of a DECTRIS detector, or of another one as in NeXus, cannot be used.
//!
//! | where, below `entry/instrument/detector` | what |
//! |---|---|
//! | `detectorSpecific/pixel_mask`, `pixel_mask` | for each pixel: bits, 0 if it is good |
//! | `NAME_channel/pixel_mask` | the same for one threshold of several |
//!
//! Bit 0 is a gap, 1 a dead pixel, 2 to 4 and 6 pixels that count wrongly, 8 what the user excluded.
//! Any of the lower 16 excludes a pixel; the higher ones, such as 31 for pixels between chips whose
//! counts are shared out, do not.

use super::array::Array;
use super::find::Found;
use super::frames::Frames;
use super::library::Library;
use framefold_core::{
    Corrections, Element, Error, FrameIndices, FramesView, Result, TileFrames, TilingScheme,
};

const DETECTOR: &str = "entry/instrument/detector";
const EXCLUDES: u64 = 0xFFFF;

/// The pixels to leave out of frames of `sig_shape`; `None` if there are none.
///
/// # Errors
/// `BadFile` if the mask is there and cannot be read.
pub(super) fn corrections(
    library: &Library,
    found: &Found,
    sig_shape: &[usize],
    warnings: &mut Vec<String>,
) -> Result<Option<Corrections>> {
    let of_detector = |(path, _): &(String, Option<u64>)| path.starts_with("entry/data");
    if !found.parts.iter().all(of_detector) {
        return Ok(None);
    }
    let Some(path) = place(library, warnings) else { return Ok(None) };
    let (dataset, owner) = library.dataset(&path)?;
    let array = Array::try_new(library, &dataset, owner)?;
    if array.shape != sig_shape {
        warnings.push(format!(
            "the pixel mask has the shape {:?}, but frames {sig_shape:?}: it is not applied",
            array.shape
        ));
        return Ok(None);
    }
    let bits = bits(library, array).map_err(|error| {
        error.with_hint("repair the file, or open the data with enable_corrections=False")
    })?;
    let numbered = bits.iter().enumerate();
    let excluded: Vec<usize> =
        numbered.filter(|(_, bits)| *bits & EXCLUDES != 0).map(|(pixel, _)| pixel).collect();
    if excluded.is_empty() {
        return Ok(None);
    }
    let lonely = Corrections::try_new(sig_shape, None, None, excluded.clone(), false);
    if let Err(error) = lonely {
        warnings.push(format!("{}; they are left as they are", error.message()));
    }
    Corrections::try_new(sig_shape, None, None, excluded, true).map(Some)
}

/// The path of the mask, if there is one for all frames.
fn place(library: &Library, warnings: &mut Vec<String>) -> Option<String> {
    let detector = library.group(DETECTOR)?;
    let has = |group: &str| {
        let group = library.group(group);
        group.is_some_and(|group| group.dataset("pixel_mask").is_ok())
    };
    for group in [format!("{DETECTOR}/detectorSpecific"), DETECTOR.to_owned()] {
        if has(&group) {
            return Some(format!("{group}/pixel_mask"));
        }
    }
    let (names, _) = detector.member_names().ok()?;
    let channels = names.iter().filter(|name| name.ends_with("_channel"));
    let channels: Vec<String> = channels.map(|name| format!("{DETECTOR}/{name}")).collect();
    match channels.as_slice() {
        [only] if has(only) => Some(format!("{only}/pixel_mask")),
        several if several.iter().any(|group| has(group)) => {
            warnings.push("each threshold has a pixel mask of its own: none is applied".into());
            None
        }
        _ => None,
    }
}

/// The elements of an image.
fn bits(library: &Library, array: Array) -> Result<Vec<u64>> {
    let owner = array.owner.clone();
    let sig_axes = (0..array.shape.len()).collect();
    let source = Frames::of_one(array, sig_axes)?.source(library)?;
    let shape = &source.info().sig_shape;
    let scheme = TilingScheme::try_new(shape, shape, 1)?;
    let Some(whole) = scheme.slices().first() else { return Ok(vec![]) };
    let mut reader = source.reader()?;
    let tile = reader.read(FrameIndices::Run(0..1), whole)?;
    let bits = match tile.frames {
        TileFrames::Bool(view) => collect(view, |flag| u64::from(flag.0 != 0)),
        TileFrames::U8(view) => collect(view, u64::from),
        TileFrames::U16(view) => collect(view, u64::from),
        TileFrames::U32(view) => collect(view, u64::from),
        TileFrames::U64(view) => collect(view, |bits| bits),
        TileFrames::I8(view) => collect(view, |bits| u64::from(bits.cast_unsigned())),
        TileFrames::I16(view) => collect(view, |bits| u64::from(bits.cast_unsigned())),
        TileFrames::I32(view) => collect(view, |bits| u64::from(bits.cast_unsigned())),
        TileFrames::I64(view) => collect(view, |bits| bits.cast_unsigned()),
        other => {
            return Err(owner.locate(Error::bad_file(format!(
                "the pixel mask has the dtype {}, but bits are whole numbers",
                other.dtype()
            ))));
        }
    };
    reader.verify()?;
    Ok(bits)
}

fn collect<T: Element>(view: FramesView<'_, T>, bits: impl Fn(T) -> u64) -> Vec<u64> {
    view.frames().flatten().map(|&value| bits(value)).collect()
}

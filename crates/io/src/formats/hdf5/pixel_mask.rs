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
//!
//! Repaired pixels are no longer what was counted, and integers become floats. So a mask is applied
//! only on request; otherwise a sentence says that it is there.

use super::array::Array;
use super::assemble;
use super::find::Found;
use super::frames::Frames;
use super::library::Library;
use framefold_core::{
    Corrections, Element, Error, FrameIndices, FramesView, Result, TileFrames, TilingScheme,
};

const DETECTOR: &str = "entry/instrument/detector";
const EXCLUDES: u64 = 0xFFFF;

/// What becomes of the mask of a file.
#[derive(Debug, Default)]
pub(super) struct PixelMask {
    /// The pixels to repair.
    pub(super) applied: Option<Corrections>,
    /// What is said about a mask that is not applied.
    pub(super) unused: Option<String>,
}

impl PixelMask {
    /// Looks for the mask of frames of `sig_shape`, to apply it if that is `wanted`; `Some(false)`
    /// does not look.
    ///
    /// # Errors
    /// `BadFile` if the mask is wanted, and cannot be read.
    pub(super) fn find(
        library: &Library,
        found: &Found,
        sig_shape: &[usize],
        wanted: Option<bool>,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let of_detector = |(path, _): &(String, Option<u64>)| path.starts_with("entry/data");
        if wanted == Some(false) || !found.parts.iter().all(of_detector) {
            return Ok(Self::default());
        }
        if wanted == Some(true) {
            let applied = corrections(library, sig_shape, warnings)?;
            return Ok(PixelMask { applied, unused: None });
        }
        let unused = match excluded(library, sig_shape, warnings) {
            Ok(excluded) if excluded.is_empty() => None,
            Ok(excluded) => Some(format!(
                "a pixel mask marks {} of {} pixels of each frame as bad, and is not applied: open \
                 the data with enable_corrections=True to repair them, or with \
                 enable_corrections=False if they are to stay",
                excluded.len(),
                sig_shape.iter().product::<usize>()
            )),
            Err(error) => {
                Some(format!("there is a pixel mask that cannot be read ({})", error.message()))
            }
        };
        warnings.extend(unused.clone());
        Ok(PixelMask { applied: None, unused })
    }
}

/// The corrections that repair the pixels of the mask; `None` if there are none.
fn corrections(
    library: &Library,
    sig_shape: &[usize],
    warnings: &mut Vec<String>,
) -> Result<Option<Corrections>> {
    let excluded = excluded(library, sig_shape, warnings).map_err(|error| {
        error.with_hint("repair the file, or open the data with enable_corrections=False")
    })?;
    if excluded.is_empty() {
        return Ok(None);
    }
    let lonely = Corrections::try_new(sig_shape, None, None, excluded.clone(), false);
    if let Err(error) = lonely {
        warnings.push(format!("{}; they are left as they are", error.message()));
    }
    Corrections::try_new(sig_shape, None, None, excluded, true).map(Some)
}

/// The flat numbers of the pixels that the mask excludes.
fn excluded(
    library: &Library,
    sig_shape: &[usize],
    warnings: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let Some(path) = place(library, warnings) else { return Ok(vec![]) };
    let (dataset, owner) = library.dataset(&path)?;
    let array = Array::try_new(library, &dataset, owner)?;
    if array.shape != sig_shape {
        warnings.push(format!(
            "the pixel mask has the shape {:?}, but frames {sig_shape:?}: it is not applied",
            array.shape
        ));
        return Ok(vec![]);
    }
    let bits = bits(library, array)?;
    let numbered = bits.iter().enumerate();
    Ok(numbered.filter(|(_, bits)| *bits & EXCLUDES != 0).map(|(pixel, _)| pixel).collect())
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
    let source = assemble::source(library, Frames::of_one(array, sig_axes)?)?;
    let shape = &source.info().sig_shape;
    let scheme = TilingScheme::try_new(shape, shape, 1)?;
    let Some(whole) = scheme.slices().first() else { return Ok(vec![]) };
    let mut reader = source.reader()?;
    let tile = reader.read(FrameIndices::Run(0..1), whole)?;
    let bits = match tile.frames() {
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

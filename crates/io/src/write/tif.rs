//! TIFF: one page per image, uncompressed, in the dtype of the array.
//!
//! Pages follow each other in C order of the leading axes, channels (or y and x components) last
//! of all: page = leading index × channels + channel. Truth values become 0 and 1, 16-bit floats 32-bit ones.
//! Files that would pass 4 GiB are BigTIFF.
//!
//! Steps and units of the axes of pages are in the first page's description, as ImageJ writes them or as
//! OME-XML (`labels`), and in the tags for resolution.

mod labels;

use crate::write::whole::refused;
use framefold_core::{Error, NativeArray, Result, TypedVec, interrupt};
pub use labels::{TiffLabels, TiffStep};
use std::borrow::Cow;
use std::io::{self, Seek, Write};
use tiff::TiffError;
use tiff::encoder::colortype::{
    ColorType, Gray8, Gray16, Gray32, Gray32Float, Gray64, Gray64Float, GrayI8, GrayI16, GrayI32,
    GrayI64,
};
use tiff::encoder::{TiffEncoder, TiffKind, TiffValue};
use tiff::tags::{CompressionMethod, ResolutionUnit, Tag};

/// The largest number of bytes of pixels in a file with 32-bit offsets.
const CLASSIC_LIMIT: usize = 4_000_000_000;

/// Writes the pages of `array`: its last two axes but the `n_channel_axes` that count channels.
///
/// # Errors
/// `Unsupported` for complex numbers; `Limit` if a page is too large; `Io`; what
/// [`interrupt::check`] says before each page.
pub fn write_tiff(
    out: &mut (impl Write + Seek),
    array: &NativeArray,
    n_channel_axes: usize,
    labels: &TiffLabels,
) -> Result<()> {
    let array = storable(array)?;
    let shape = array.shape();
    let (base, channels) = shape.split_at(shape.len().saturating_sub(n_channel_axes));
    let (height, width) = match base {
        [.., height, width] => (*height, *width),
        [width] => (1, *width),
        [] => (1, 1),
    };
    let side = |len: usize| {
        u32::try_from(len).map_err(|_| Error::limit(format!("a TIFF page cannot be {len} long")))
    };
    if array.values().is_empty() {
        return Err(Error::unsupported("there is nothing to write: the result is empty"));
    }
    let n_channels: usize = channels.iter().product();
    let pages = Pages {
        width: side(width)?,
        height: side(height)?,
        page_len: width * height,
        n_channels,
        labels,
        description: labels.description(
            (height, width),
            (array.values().len() / (width * height * n_channels).max(1), n_channels),
            array.dtype(),
        )?,
    };
    let result = if array.values().as_bytes().len() < CLASSIC_LIMIT {
        TiffEncoder::new(out).and_then(|mut tiff| pages.write(&mut tiff, array.values()))
    } else {
        TiffEncoder::new_big(out).and_then(|mut tiff| pages.write(&mut tiff, array.values()))
    };
    result.map_err(|error| match error {
        TiffError::IoError(error) => {
            error.downcast().unwrap_or_else(|error| refused("write the array", error))
        }
        other => Error::bug(format!("the TIFF could not be made: {other}")),
    })
}

/// The values in a dtype that TIFF knows.
fn storable(array: &NativeArray) -> Result<Cow<'_, NativeArray>> {
    match array.values() {
        TypedVec::C64(_) | TypedVec::C128(_) => {
            Err(Error::unsupported("TIFF cannot hold complex numbers")
                .with_hint("write .npy or .npz, or a picture"))
        }
        TypedVec::F16(values) => {
            let values: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
            NativeArray::try_new(array.shape(), values).map(Cow::Owned)
        }
        TypedVec::Bool(values) => {
            let values: Vec<u8> = values.iter().map(|value| u8::from(value.get())).collect();
            NativeArray::try_new(array.shape(), values).map(Cow::Owned)
        }
        _ => Ok(Cow::Borrowed(array)),
    }
}

/// [`interrupt::check`] as an error that carries its own through the encoder's.
fn going_on() -> io::Result<()> {
    interrupt::check().map_err(io::Error::other)
}

/// How an array is cut into pages.
struct Pages<'a> {
    width: u32,
    height: u32,
    page_len: usize,
    n_channels: usize,
    labels: &'a TiffLabels,
    description: String,
}

impl Pages<'_> {
    fn write<W: Write + Seek, K: TiffKind>(
        &self,
        tiff: &mut TiffEncoder<W, K>,
        values: &TypedVec,
    ) -> Result<(), TiffError> {
        match values {
            TypedVec::U8(values) => self.write_as::<_, _, Gray8>(tiff, values),
            TypedVec::U16(values) => self.write_as::<_, _, Gray16>(tiff, values),
            TypedVec::U32(values) => self.write_as::<_, _, Gray32>(tiff, values),
            TypedVec::U64(values) => self.write_as::<_, _, Gray64>(tiff, values),
            TypedVec::I8(values) => self.write_as::<_, _, GrayI8>(tiff, values),
            TypedVec::I16(values) => self.write_as::<_, _, GrayI16>(tiff, values),
            TypedVec::I32(values) => self.write_as::<_, _, GrayI32>(tiff, values),
            TypedVec::I64(values) => self.write_as::<_, _, GrayI64>(tiff, values),
            TypedVec::F32(values) => self.write_as::<_, _, Gray32Float>(tiff, values),
            TypedVec::F64(values) => self.write_as::<_, _, Gray64Float>(tiff, values),
            TypedVec::Bool(_) | TypedVec::F16(_) | TypedVec::C64(_) | TypedVec::C128(_) => {
                Err(tiff::TiffUnsupportedError::UnsupportedDataType.into())
            }
        }
    }

    fn write_as<W: Write + Seek, K: TiffKind, C: ColorType>(
        &self,
        tiff: &mut TiffEncoder<W, K>,
        values: &[C::Inner],
    ) -> Result<(), TiffError>
    where
        C::Inner: Copy,
        [C::Inner]: TiffValue,
    {
        let n_bytes = u64::from(self.width) * u64::from(self.height) * size_of::<C::Inner>() as u64;
        // ImageJ reads its stacks in one run of bytes: pixels first, all directories behind them.
        let mut offsets = Vec::new();
        let mut directory = tiff.image_directory()?;
        for block in values.chunks(self.page_len.max(1) * self.n_channels.max(1)) {
            for channel in 0..self.n_channels {
                going_on()?;
                let page: Vec<C::Inner> =
                    block.iter().copied().skip(channel).step_by(self.n_channels).collect();
                offsets.push(directory.write_data(page.as_slice())?);
            }
        }
        let n_pages = offsets.len();
        for (number, offset) in offsets.into_iter().enumerate() {
            going_on()?;
            directory.write_tag(Tag::ImageWidth, self.width)?;
            directory.write_tag(Tag::ImageLength, self.height)?;
            directory.write_tag(Tag::BitsPerSample, C::BITS_PER_SAMPLE)?;
            directory.write_tag(Tag::Compression, CompressionMethod::None)?;
            directory.write_tag(Tag::PhotometricInterpretation, C::TIFF_VALUE)?;
            if number == 0 {
                directory.write_tag(Tag::ImageDescription, self.description.as_str())?;
            }
            directory.write_tag(Tag::StripOffsets, K::convert_offset(offset)?)?;
            directory.write_tag(Tag::SamplesPerPixel, 1_u16)?;
            directory.write_tag(Tag::RowsPerStrip, self.height)?;
            directory.write_tag(Tag::StripByteCounts, K::convert_offset(n_bytes)?)?;
            if let Some((x, y)) = self.labels.resolution() {
                directory.write_tag(Tag::XResolution, x)?;
                directory.write_tag(Tag::YResolution, y)?;
                directory.write_tag(Tag::ResolutionUnit, ResolutionUnit::None)?;
            }
            directory.write_tag(Tag::Software, "framefold")?;
            directory.write_tag(Tag::SampleFormat, C::SAMPLE_FORMAT)?;
            directory.finish()?;
            if number + 1 == n_pages {
                break;
            }
            directory = tiff.image_directory()?;
        }
        Ok(())
    }
}

//! TIFF: one page per image, uncompressed, in the dtype of the result.
//!
//! Pages follow each other in C order of the leading axes, channels (or y and x components) last
//! of all: page = leading index × channels + channel. Gaps are NaN, as in NPY. Truth values
//! become 0 and 1, 16-bit floats 32-bit ones. Files that would pass 4 GiB are BigTIFF.
//!
//! Steps and units of the axes of pages are in the first page's description, as ImageJ writes them or as
//! OME-XML (`labels`), and in the tags for resolution.

mod labels;

use super::atomic::failed;
use crate::field::{Field, is_calibrated};
use crate::numbers::reals;
use framefold::core::{Axis, DType, NativeArray, TypedVec};
use framefold::{Error, Result};
pub use labels::{TiffLabels, TiffStep};
use std::borrow::Cow;
use std::io::{Seek, Write};
use tiff::TiffError;
use tiff::encoder::colortype::{
    ColorType, Gray8, Gray16, Gray32, Gray32Float, Gray64, Gray64Float, GrayI8, GrayI16, GrayI32,
    GrayI64,
};
use tiff::encoder::{TiffEncoder, TiffKind, TiffValue};
use tiff::tags::{CompressionMethod, ResolutionUnit, Tag};

/// The largest number of bytes of pixels in a file with 32-bit offsets.
const CLASSIC_LIMIT: usize = 4_000_000_000;

/// Writes `field`.
///
/// # Errors
/// `Unsupported` for complex numbers; `Limit` if a page is too large; `Io`.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    field: &Field,
    labels: &TiffLabels,
) -> Result<()> {
    write_tiff(out, &*field.with_nan()?, field.n_channel_axes, labels)
}

/// The steps of the axes of a field's pages, where they are known.
pub(super) fn labels_of(field: &Field, title: &str) -> TiffLabels {
    let step = |axis: &Axis| {
        is_calibrated(axis).then(|| TiffStep {
            unit: axis.unit.clone(),
            scale: axis.scale,
            offset: axis.offset,
        })
    };
    let (y, x) = match &field.axes[..] {
        [.., y, x] => (step(y), step(x)),
        [x] => (None, step(x)),
        [] => (None, None),
    };
    TiffLabels { title: format!("{title}: {}", field.name), y, x, ome: false }
}

/// Writes the pages of `array`: its last two axes but the `n_channel_axes` that count channels.
///
/// # Errors
/// `Unsupported` for complex numbers; `Limit` if a page is too large; `Io`.
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
        TiffError::IoError(error) => failed(error),
        other => Error::bug(format!("the TIFF could not be made: {other}")),
    })
}

/// The values in a dtype that TIFF knows.
fn storable(array: &NativeArray) -> Result<Cow<'_, NativeArray>> {
    match array.dtype() {
        DType::C64 | DType::C128 => Err(Error::unsupported("TIFF cannot hold complex numbers")
            .with_hint("write .npy or .npz, or a picture")),
        DType::F16 => {
            let values: Vec<f32> =
                reals(array.values()).into_iter().map(|value| value as f32).collect();
            NativeArray::try_new(array.shape(), values).map(Cow::Owned)
        }
        DType::Bool => {
            let values: Vec<u8> =
                reals(array.values()).into_iter().map(|value| value as u8).collect();
            NativeArray::try_new(array.shape(), values).map(Cow::Owned)
        }
        _ => Ok(Cow::Borrowed(array)),
    }
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
                let page: Vec<C::Inner> =
                    block.iter().copied().skip(channel).step_by(self.n_channels).collect();
                offsets.push(directory.write_data(page.as_slice())?);
            }
        }
        let n_pages = offsets.len();
        for (number, offset) in offsets.into_iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use framefold::core::{Bool8, Complex64, F16};
    use std::io::Cursor;
    use tiff::decoder::{Decoder, DecodingResult};

    fn written(field: &Field) -> Vec<((u32, u32), DecodingResult)> {
        let mut bytes = Cursor::new(Vec::new());
        write(&mut bytes, field, &TiffLabels::default()).unwrap();
        bytes.set_position(0);
        let mut decoder = Decoder::new(bytes).unwrap();
        let mut pages = vec![(decoder.dimensions().unwrap(), decoder.read_image().unwrap())];
        while decoder.more_images() {
            decoder.next_image().unwrap();
            pages.push((decoder.dimensions().unwrap(), decoder.read_image().unwrap()));
        }
        pages
    }

    #[test]
    fn integers_keep_their_dtype() {
        let pages = written(&field(&[2, 3], vec![1u16, 2, 3, 4, 5, 65535], 0, None));
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].0, (3, 2));
        match &pages[0].1 {
            DecodingResult::U16(values) => assert_eq!(values[..], [1, 2, 3, 4, 5, 65535]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pages_are_leading_axes_then_channels() {
        let values: Vec<f64> = (0..2 * 2 * 3 * 2).map(f64::from).collect();
        let pages = written(&field(&[2, 2, 3, 2], values, 1, None));
        assert_eq!(pages.len(), 4);
        let first = |page: usize| match &pages[page].1 {
            DecodingResult::F64(values) => values[..2].to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(first(0), [0.0, 2.0]);
        assert_eq!(first(1), [1.0, 3.0]);
        assert_eq!(first(2), [12.0, 14.0]);
    }

    #[test]
    fn gaps_are_nan() {
        let pages = written(&field(&[2], vec![9u8, 0], 0, Some(vec![true, false])));
        match &pages[0].1 {
            DecodingResult::F32(values) => assert!(values[0] == 9.0 && values[1].is_nan()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foreign_dtypes_are_converted_or_refused() {
        let halves = vec![F16::from_f32(0.5), F16::from_f32(2.0)];
        match &written(&field(&[2], halves, 0, None))[0].1 {
            DecodingResult::F32(values) => assert_eq!(values[..], [0.5, 2.0]),
            other => panic!("{other:?}"),
        }
        match &written(&field(&[2], vec![Bool8(1), Bool8(0)], 0, None))[0].1 {
            DecodingResult::U8(values) => assert_eq!(values[..], [1, 0]),
            other => panic!("{other:?}"),
        }
        let complex = field(&[1], vec![Complex64::new(1.0, 1.0)], 0, None);
        let error =
            write(&mut Cursor::new(Vec::new()), &complex, &TiffLabels::default()).unwrap_err();
        assert_eq!(error.kind(), framefold::ErrorKind::Unsupported);
    }
}

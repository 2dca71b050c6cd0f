//! JPEG: a picture without transparency; gaps are light grey.

use super::atomic::failed;
use crate::render::Picture;
use framefold::{Error, Result};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageError};
use std::io::Write;

/// Of 100: letters stay sharp.
const QUALITY: u8 = 95;
const GAP: [u8; 3] = [205; 3];

/// Writes `picture`.
///
/// # Errors
/// `Limit` if a side is too long for the format; `Io`.
pub(super) fn write(out: &mut impl Write, picture: &Picture) -> Result<()> {
    let side = |len: usize| {
        u16::try_from(len).map_err(|_| {
            Error::limit(format!("a JPEG cannot be {len} pixels long")).with_hint("write .png")
        })
    };
    let (width, height) = (side(picture.width())?.into(), side(picture.height())?.into());
    let colour = |pixel: &[u8; 4]| match *pixel {
        [_, _, _, 0] => GAP,
        [red, green, blue, _] => [red, green, blue],
    };
    let pixels: Vec<[u8; 3]> = picture.pixels().iter().map(colour).collect();
    JpegEncoder::new_with_quality(out, QUALITY)
        .encode(pixels.as_flattened(), width, height, ExtendedColorType::Rgb8)
        .map_err(|error| match error {
            ImageError::IoError(error) => failed(error),
            other => Error::bug(format!("the JPEG could not be made: {other}")),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_jpeg_and_not_too_long() {
        let mut bytes = Vec::new();
        write(&mut bytes, &Picture::filled(20, 10, [1, 2, 3, 0])).unwrap();
        assert!(bytes.starts_with(&[0xFF, 0xD8]) && bytes.ends_with(&[0xFF, 0xD9]));
        let error = write(&mut Vec::new(), &Picture::filled(70_000, 1, [0; 4])).unwrap_err();
        assert_eq!(error.kind(), framefold::ErrorKind::Limit);
    }
}

//! PNG: a picture with transparency, and a caption in its meta data.

use super::atomic::failed;
use crate::render::Picture;
use framefold::{Error, Result};
use png::{BitDepth, ColorType, Encoder, EncodingError, SrgbRenderingIntent};
use std::io::Write;

/// Writes `picture`; `caption` goes into the text field `Description`.
///
/// # Errors
/// `Limit` if a side is too long for the format; `Io`.
pub(super) fn write(out: &mut impl Write, picture: &Picture, caption: &str) -> Result<()> {
    let side = |len: usize| {
        u32::try_from(len).map_err(|_| Error::limit(format!("a PNG cannot be {len} pixels long")))
    };
    encode(out, side(picture.width())?, side(picture.height())?, picture, caption).map_err(
        |error| match error {
            EncodingError::IoError(error) => failed(error),
            other => Error::bug(format!("the PNG could not be made: {other}")),
        },
    )
}

fn encode(
    out: &mut impl Write,
    width: u32,
    height: u32,
    picture: &Picture,
    caption: &str,
) -> Result<(), EncodingError> {
    let mut encoder = Encoder::new(out, width, height);
    encoder.set_color(ColorType::Rgba);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_source_srgb(SrgbRenderingIntent::Perceptual);
    encoder.add_itxt_chunk("Description".into(), caption.into())?;
    encoder.add_text_chunk("Software".into(), "framefold".into())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(picture.pixels().as_flattened())?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn pixels_and_caption_are_read_back() {
        let picture =
            Picture::from_fn(3, 2, |y, x| [x as u8, y as u8, 7, if x == 2 { 0 } else { 255 }]);
        let mut bytes = Vec::new();
        write(&mut bytes, &picture, "from 0 to 1").unwrap();
        let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (3, 2, ColorType::Rgba));
        assert_eq!(pixels, picture.pixels().as_flattened());
        let texts = &reader.info().utf8_text;
        assert_eq!(texts[0].get_text().unwrap(), "from 0 to 1");
    }
}

//! Words and numbers in pictures, in a font of pixels.

use super::Picture;
use embedded_graphics::Drawable;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle, iso_8859_1::FONT_7X13};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::text::{Baseline, Text};
use std::convert::Infallible;

const FONT: &MonoFont<'_> = &FONT_7X13;
/// The height of a line.
pub(crate) const LINE: usize = 13;
/// The width of a letter.
pub(crate) const LETTER: usize = 7;
/// Where nothing is drawn.
const CLEAR: [u8; 4] = [255, 255, 255, 0];

/// A line of text, `factor` times as large as the font. Letters that the font has not are written by others.
pub fn text(line: &str, colour: [u8; 4], factor: usize) -> Picture {
    let line = in_latin_1(line);
    let width = LETTER * line.chars().count();
    let mut page = Page { picture: Picture::filled(width, LINE, CLEAR), colour };
    let style = MonoTextStyle::new(FONT, BinaryColor::On);
    let place = Text::with_baseline(&line, Point::zero(), style, Baseline::Top);
    let Ok(_) = place.draw(&mut page);
    page.picture.enlarged(factor)
}

/// What letters draws on.
struct Page {
    picture: Picture,
    colour: [u8; 4],
}

impl OriginDimensions for Page {
    fn size(&self) -> Size {
        let side = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Size::new(side(self.picture.width()), side(self.picture.height()))
    }
}

impl DrawTarget for Page {
    type Color = BinaryColor;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = embedded_graphics::Pixel<BinaryColor>>,
    {
        for embedded_graphics::Pixel(at, colour) in pixels {
            if let (Ok(y), Ok(x), BinaryColor::On) =
                (usize::try_from(at.y), usize::try_from(at.x), colour)
            {
                self.picture.set(y, x, self.colour);
            }
        }
        Ok(())
    }
}

/// The text with letters that ISO 8859-1 has.
fn in_latin_1(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\u{3bc}' => shown.push('µ'),
            '⁻' => shown.push_str("^-"),
            '−' | '–' => shown.push('-'),
            'α' => shown.push_str("alpha"),
            'β' => shown.push_str("beta"),
            ' '..='~' | '\u{a1}'..='\u{ff}' => shown.push(c),
            _ => shown.push('?'),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_large_as_their_letters() {
        let black = [0, 0, 0, 255];
        let line = text("1 µm", black, 2);
        assert_eq!((line.width(), line.height()), (4 * LETTER * 2, LINE * 2));
        let n_black = |line: &Picture| line.pixels().iter().filter(|p| **p == black).count();
        assert!(n_black(&line) > 40);
        assert!(line.pixels().iter().all(|pixel| *pixel == black || *pixel == CLEAR));
        assert!(n_black(&text("8", black, 1)) > n_black(&text("1", black, 1)));
        assert_eq!(text("", black, 1).width(), 0);
    }

    #[test]
    fn units_can_be_read() {
        assert_eq!(in_latin_1("Å⁻¹, μm, 5°"), "Å^-¹, µm, 5°");
        assert_eq!(in_latin_1("語"), "?");
    }
}

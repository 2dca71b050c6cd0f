//! Laying a result out as one picture.

use super::panel::{Key, panel};
use crate::field::{Channel, Field, Page};
use crate::render::{
    Center, Colormap, MISSING, Picture, Plane, Scale, ScaleOptions, VectorOptions, VectorScale,
    bar, draw_line, draw_scalars, draw_vectors, montage, montage_on, number, wheel,
};
use framefold::kernels::Look;
use framefold::{Error, Result};
use std::num::NonZeroUsize;

/// The longer side that small pictures are enlarged to, at most.
const COMFORTABLE: usize = 512;
/// The most columns of a line; longer data is drawn as the range within each column.
const LINE_COLUMNS: usize = 2048;
const LINE_HEIGHT: usize = 256;
/// The ends of a line's scale, as percentiles, if none are asked for: a peak is part of a line.
const WHOLE: (f64, f64) = (0.0, 100.0);
/// The height of a one-dimensional vector field.
const STRIP_HEIGHT: usize = 48;
/// The most pixels of a picture: 512 MiB of memory.
const MAX_PIXELS: usize = 1 << 27;
const GAP: usize = 8;
/// The least digits of numbers in words.
const DIGITS: i32 = 6;
const BAR_WIDTH: usize = 16;

/// How results are drawn.
#[derive(Clone, Debug)]
pub(crate) struct PictureStyle {
    /// How the ends of the colour scale are chosen.
    pub scale: ScaleOptions,
    /// The colour map.
    pub colours: Colormap,
    /// Its name, for the caption.
    pub colours_name: String,
    /// What is subtracted from vector fields.
    pub center: Center,
    /// The factor of enlargement; chosen by the size if not given.
    pub upscale: Option<NonZeroUsize>,
    /// Whether the colour scale alone is added on the right.
    pub legend: bool,
    /// Whether each panel has a title, a scale bar, and numbers that explain its colours.
    pub labelled: bool,
    /// What is drawn: the name of the reduction.
    pub title: String,
}

/// Draws `field`; gives the picture and what its colours mean.
///
/// Pages (leading axes, channels) are laid out on a grid. Pages of one channel share a colour
/// scale; channels, which show different quantities, have one each.
///
/// # Errors
/// `Limit` if the picture would be too large; `Unsupported` if there is nothing to draw.
pub(crate) fn draw(field: &Field, style: &PictureStyle) -> Result<(Picture, String)> {
    let layout = Layout::try_new(field, style)?;
    let mut pictures = Vec::new();
    let mut captions = Vec::new();
    let names = field.channel_names();
    if let Some(pages) = field.coloured() {
        pictures.extend(pages.into_iter().map(|page| layout.enlarged(page)));
        if style.labelled {
            let title = format!("{}: {}", style.title, field.name);
            layout.label(field, &title, &Meaning::Colours, style, pictures.get_mut(..));
        }
        captions.push(Meaning::Colours);
    }
    // Colours are no numbers.
    let channels = if captions.is_empty() { field.channels() } else { vec![] };
    for (i, channel) in channels.iter().enumerate() {
        let from = pictures.len();
        let meaning = layout.draw_channel(channel, style, &mut pictures);
        if style.labelled {
            let name = names.get(i).filter(|_| field.look != Look::Vectors);
            let title = format!("{}: {}", style.title, field.name);
            let title = title + name.map_or("", String::as_str);
            layout.label(field, &title, &meaning, style, pictures.get_mut(from..));
        }
        captions.push(meaning);
    }
    let sheet = match style.labelled {
        true => montage_on(&pictures, 0, [255; 4]),
        false => montage(&pictures, GAP),
    };
    let sheet = match captions.first() {
        Some(Meaning::Vectors(_)) if style.legend => {
            let diameter = (sheet.height() / 3).clamp(48, 128);
            sheet.beside(&wheel(diameter), GAP)
        }
        Some(Meaning::Scalars(_)) if style.legend && layout.line.is_none() => {
            let height = sheet.height();
            sheet.beside(&bar(&style.colours, BAR_WIDTH, height), GAP)
        }
        _ => sheet,
    };
    Ok((sheet, caption(field, style, &layout, &captions)))
}

/// The colours of a channel.
enum Meaning {
    Scalars(Scale),
    Vectors(Vec<VectorScale>),
    /// The pixels are colours.
    Colours,
}

/// The sizes of things.
struct Layout {
    factor: usize,
    /// The columns of a line, where pages are lines.
    line: Option<usize>,
    one_dimensional: bool,
    /// What is subtracted first: of complex numbers nothing, their phase is a result.
    center: Center,
}

impl Layout {
    fn try_new(field: &Field, style: &PictureStyle) -> Result<Self> {
        let (height, width) = field.page_shape();
        let page_len = width.saturating_mul(height);
        let vector = if field.look == Look::Vectors { 2 } else { 1 };
        let n_components = field.n_colours().unwrap_or(vector);
        let n_pages = field.array.values().len().checked_div(page_len * n_components).unwrap_or(0);
        if n_pages == 0 {
            return Err(Error::unsupported(format!("'{}' has nothing to draw", field.name)));
        }
        let one_dimensional = field.base_shape().len() <= 1;
        let is_line =
            one_dimensional && field.look != Look::Vectors && !field.array.dtype().is_complex();
        let columns = (n_pages as f64).sqrt().ceil() as usize;
        let sheet = width.max(height).saturating_mul(if one_dimensional { 1 } else { columns });
        let factor = style.upscale.map_or((COMFORTABLE / sheet.max(1)).max(1), NonZeroUsize::get);
        let line = is_line.then(|| width.saturating_mul(factor).min(LINE_COLUMNS));
        let (drawn_height, drawn_width) = match (line, one_dimensional) {
            (Some(columns), _) => (LINE_HEIGHT, columns),
            (None, true) => (STRIP_HEIGHT, width.saturating_mul(factor)),
            (None, false) => (height.saturating_mul(factor), width.saturating_mul(factor)),
        };
        let [sheet_height, sheet_width] =
            [drawn_height, drawn_width].map(|side| side.saturating_add(GAP));
        let n_pixels = sheet_height.saturating_mul(sheet_width).saturating_mul(n_pages);
        if n_pixels > MAX_PIXELS {
            return Err(Error::limit(format!(
                "a picture of {n_pages} × {drawn_width} × {drawn_height} pixels is too large"
            ))
            .with_hint("write .tif or .npy, select fewer frames, or use a smaller --upscale"));
        }
        let center = if field.look == Look::Vectors { style.center } else { Center::None };
        Ok(Layout { factor, line, one_dimensional, center })
    }

    fn draw_channel(
        &self,
        channel: &Channel,
        style: &PictureStyle,
        pictures: &mut Vec<Picture>,
    ) -> Meaning {
        let scalars = channel.pages.iter().filter_map(|page| match page {
            Page::Scalars(plane) => Some(plane.values()),
            Page::Vectors(..) => None,
        });
        let mut options = style.scale.clone();
        if self.line.is_some() {
            options.percentiles = options.percentiles.or(Some(WHOLE));
        }
        let scale = Scale::fit(scalars.flatten(), &options);
        let mut vector_scales = Vec::new();
        for page in &channel.pages {
            pictures.push(match page {
                Page::Scalars(plane) => self.draw_scalars(plane, &scale, style),
                Page::Vectors(y, x) => {
                    let options = VectorOptions { scale: options.clone(), center: self.center };
                    let (picture, scale) = draw_vectors(y, x, &options);
                    vector_scales.push(scale);
                    self.enlarged(picture)
                }
            });
        }
        if vector_scales.is_empty() {
            Meaning::Scalars(scale)
        } else {
            Meaning::Vectors(vector_scales)
        }
    }

    /// Makes panels of the pages of a channel.
    fn label(
        &self,
        field: &Field,
        title: &str,
        meaning: &Meaning,
        style: &PictureStyle,
        pictures: Option<&mut [Picture]>,
    ) {
        let pages = field.page_names();
        let names = if field.look == Look::Vectors { ["x", "y"] } else { ["Re", "Im"] };
        for (i, picture) in pictures.unwrap_or_default().iter_mut().enumerate() {
            let key = match meaning {
                Meaning::Scalars(scale) if self.line.is_some() => {
                    let axis = field.axes.last().cloned();
                    Key::Line(*scale, axis, field.page_shape().1)
                }
                Meaning::Scalars(scale) => Key::Bar(&style.colours, *scale),
                Meaning::Vectors(scales) => {
                    scales.get(i).map_or(Key::Nothing, |scale| Key::Wheel(*scale, names))
                }
                Meaning::Colours => Key::Nothing,
            };
            let title = format!("{title}{}", pages.get(i).map_or("", String::as_str));
            let result = std::mem::replace(picture, Picture::filled(0, 0, MISSING));
            *picture = panel(result, &title, &key, field.page_axes());
        }
    }

    fn draw_scalars(&self, plane: &Plane, scale: &Scale, style: &PictureStyle) -> Picture {
        match self.line {
            Some(columns) => draw_line(plane.values(), scale, columns, LINE_HEIGHT),
            None => self.enlarged(draw_scalars(plane, scale, &style.colours)),
        }
    }

    fn enlarged(&self, picture: Picture) -> Picture {
        if !self.one_dimensional {
            return picture.enlarged(self.factor);
        }
        let width = picture.width() * self.factor;
        Picture::from_fn(width, STRIP_HEIGHT, |_, x| picture.pixel(0, x / self.factor))
    }
}

/// What the picture shows, in one line.
fn caption(field: &Field, style: &PictureStyle, layout: &Layout, meanings: &[Meaning]) -> String {
    let shown = match layout.line {
        Some(_) => "bottom to top".to_owned(),
        None => format!("colours of {}", style.colours_name),
    };
    let parts: Vec<String> = meanings
        .iter()
        .map(|meaning| match meaning {
            Meaning::Scalars(scale) => {
                let kind = if scale.log { ", logarithmic" } else { "" };
                let [min, max] = ends(scale.min, scale.max);
                format!("{shown} from {min} to {max}{kind}")
            }
            Meaning::Vectors(scales) => {
                let parts: Vec<String> = scales.iter().map(vector_caption).collect();
                parts.join("; ")
            }
            Meaning::Colours => "red, green and blue as they are".to_owned(),
        })
        .collect();
    format!("{}: {}", field.name, parts.join("; "))
}

fn vector_caption(scale: &VectorScale) -> String {
    let (y, x) = scale.offset;
    let offset = if (y, x) == (0.0, 0.0) {
        String::new()
    } else {
        let [y, x] = [y, x].map(|part| number(part, scale.max - scale.min, DIGITS));
        format!(", relative to y {y}, x {x}")
    };
    let [min, max] = ends(scale.min, scale.max);
    format!(
        "hue is the direction (orange right, green down, blue left, purple up), saturation the \
         length from {min} to {max}{offset}"
    )
}

fn ends(min: f64, max: f64) -> [String; 2] {
    [min, max].map(|end| number(end, max - min, DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use framefold::core::Complex64;

    fn style() -> PictureStyle {
        PictureStyle {
            scale: ScaleOptions { percentiles: Some((0.0, 100.0)), ..ScaleOptions::default() },
            colours: Colormap::by_name("gray").unwrap(),
            colours_name: "gray".into(),
            center: Center::None,
            upscale: None,
            legend: false,
            labelled: false,
            title: "sum".into(),
        }
    }

    #[test]
    fn small_results_are_enlarged_by_a_whole_factor() {
        let (picture, caption) =
            draw(&field(&[2, 3], vec![0u8, 1, 2, 3, 4, 5], 0, None), &style()).unwrap();
        assert_eq!((picture.width(), picture.height()), (510, 340));
        assert_eq!(picture.pixel(0, 0), [0, 0, 0, 255]);
        assert_eq!(picture.pixel(339, 509), [255; 4]);
        assert_eq!(caption, "x: colours of gray from 0 to 5");
    }

    #[test]
    fn gaps_are_transparent() {
        let valid = Some(vec![true, false, true, true]);
        let unscaled = PictureStyle { upscale: NonZeroUsize::new(1), ..style() };
        let (picture, _) = draw(&field(&[2, 2], vec![1u8, 0, 2, 3], 0, valid), &unscaled).unwrap();
        assert_eq!(picture.pixel(0, 1), MISSING);
        assert_eq!(picture.pixel(0, 0), [0, 0, 0, 255]);
    }

    #[test]
    fn channels_have_their_own_scale_and_frames_share_one() {
        let unscaled = PictureStyle { upscale: NonZeroUsize::new(1), ..style() };
        let channels = field(&[1, 2, 2], vec![0.0, 0.0, 1.0, 100.0], 1, None);
        let (picture, _) = draw(&channels, &unscaled).unwrap();
        let whites = picture.pixels().iter().filter(|pixel| **pixel == [255; 4]).count();
        assert_eq!(whites, 2);
        let frames = field(&[2, 1, 2], vec![0.0, 1.0, 0.0, 100.0], 0, None);
        let (picture, _) = draw(&frames, &unscaled).unwrap();
        let whites = picture.pixels().iter().filter(|pixel| **pixel == [255; 4]).count();
        assert_eq!(whites, 1);
    }

    #[test]
    fn vectors_and_complex_numbers_get_hues() {
        let unscaled = PictureStyle { upscale: NonZeroUsize::new(1), ..style() };
        let mut vectors = field(&[1, 2, 2], vec![0.0, 1.0, 0.0, -1.0], 1, None);
        vectors.look = Look::Vectors;
        let (picture, caption) = draw(&vectors, &unscaled).unwrap();
        let [right, left] = [1.0, -1.0].map(|x| {
            let [red, green, blue] = crate::render::direction_colour(0.0, x, 1.0);
            [red, green, blue, 255]
        });
        assert_ne!(right, left);
        assert_eq!(picture.pixels(), [right, left]);
        assert!(caption.contains("hue"), "{caption}");
        let complex = vec![Complex64::new(1.0, 0.0), Complex64::new(-1.0, 0.0)];
        let (same, _) = draw(&field(&[1, 2], complex, 0, None), &unscaled).unwrap();
        assert_eq!(same, picture);
        let (enlarged, _) = draw(&vectors, &style()).unwrap();
        assert_eq!((enlarged.width(), enlarged.height()), (512, 256));
    }

    #[test]
    fn one_dimension_is_a_line_or_a_strip() {
        let (picture, _) = draw(&field(&[16], vec![1u8; 16], 0, None), &style()).unwrap();
        assert_eq!((picture.width(), picture.height()), (512, LINE_HEIGHT));
        let mut vectors = field(&[2, 2], vec![0.0, 1.0, 0.0, -1.0], 1, None);
        vectors.look = Look::Vectors;
        let (picture, _) = draw(&vectors, &style()).unwrap();
        assert_eq!((picture.width(), picture.height()), (512, STRIP_HEIGHT));
    }

    #[test]
    fn bytes_of_colours_are_drawn_as_they_are() {
        let unscaled = PictureStyle { upscale: NonZeroUsize::new(1), legend: true, ..style() };
        let coloured = field(&[1, 2, 3], vec![255u8, 0, 0, 9, 8, 7], 1, None);
        let (picture, caption) = draw(&coloured, &unscaled).unwrap();
        assert_eq!((picture.width(), picture.height()), (2, 1));
        assert_eq!(picture.pixels(), [[255, 0, 0, 255], [9, 8, 7, 255]]);
        assert_eq!(caption, "x: red, green and blue as they are");
        let labelled = PictureStyle { labelled: true, ..style() };
        let (panel, _) = draw(&coloured, &labelled).unwrap();
        // Beside the picture is nothing but the margin.
        assert!(panel.width() < 512 + 20 && panel.height() > 256 + 10);
    }

    #[test]
    fn legends_are_beside_the_picture() {
        let legend = PictureStyle { legend: true, ..style() };
        let (picture, _) = draw(&field(&[2, 2], vec![1u8, 0, 2, 3], 0, None), &legend).unwrap();
        assert_eq!((picture.width(), picture.height()), (512 + GAP + BAR_WIDTH, 512));
        assert_eq!(picture.pixel(0, 535), [255; 4]);
    }

    #[test]
    fn each_channel_is_a_panel_with_its_own_numbers() {
        let labelled = PictureStyle { labelled: true, ..style() };
        let values = vec![0.0, 0.0, 1.0, 100.0, 0.5, 50.0, 0.25, 25.0];
        let (two, _) = draw(&field(&[2, 2, 2], values, 1, None), &labelled).unwrap();
        let (one, _) = draw(&field(&[2, 2], vec![1u8, 0, 2, 3], 0, None), &labelled).unwrap();
        // Below each other: two panels of half the height, each with a title.
        assert!(two.height() > one.height() && two.width() < one.width());
        assert_eq!(one.pixel(0, 0), [255; 4]);
        let (line, _) = draw(&field(&[16], vec![1u8; 16], 0, None), &labelled).unwrap();
        assert!(line.width() > 512 && line.height() > LINE_HEIGHT + 40);
    }

    #[test]
    fn enormous_pictures_are_refused() {
        let huge = PictureStyle { upscale: NonZeroUsize::new(100_000), ..style() };
        let error = draw(&field(&[2, 2], vec![0u8; 4], 0, None), &huge).unwrap_err();
        assert_eq!(error.kind(), framefold::ErrorKind::Limit);
        assert!(draw(&field(&[0, 2], Vec::<u8>::new(), 0, None), &style()).is_err());
    }

    #[test]
    fn lines_go_to_their_peaks() {
        let mut values = vec![0.0; 2000];
        values[3] = 50.0;
        values[9] = 2.0;
        let robust = PictureStyle { scale: ScaleOptions::default(), ..style() };
        let (_, caption) = draw(&field(&[2000], values.clone(), 0, None), &robust).unwrap();
        assert_eq!(caption, "x: bottom to top from 0 to 50");
        let scale = ScaleOptions { percentiles: Some((0.0, 99.95)), ..ScaleOptions::default() };
        let asked = PictureStyle { scale, ..style() };
        let (_, caption) = draw(&field(&[2000], values, 0, None), &asked).unwrap();
        assert!(caption.starts_with("x: bottom to top from 0 to 2."), "{caption}");
    }

    #[test]
    fn captions_tell_the_ends_apart() {
        let values = vec![12_347_310.25, 12_347_311.5];
        let (_, caption) = draw(&field(&[1, 2], values, 0, None), &style()).unwrap();
        assert_eq!(caption, "x: colours of gray from 12347310.25 to 12347311.5");
    }

    #[test]
    fn nothing_is_subtracted_from_complex_numbers() {
        let style = PictureStyle { center: Center::Median, ..style() };
        let value = Complex64::new(0.0, 1.0);
        let (picture, caption) = draw(&field(&[1, 2], vec![value; 2], 0, None), &style).unwrap();
        let [red, green, blue] = crate::render::direction_colour(1.0, 0.0, 1.0);
        assert_eq!(picture.pixel(0, 0), [red, green, blue, 255]);
        assert!(!caption.contains("relative"), "{caption}");
    }
}

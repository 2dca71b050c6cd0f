//! One panel of a picture: a title, the result itself with a scale bar, and what its colours mean.

use crate::render::{
    Colormap, LETTER, LINE, MISSING, Picture, Scale, VectorScale, bar, labels, number,
    round_length, text, ticks, wheel,
};
use framefold::core::Axis;

const PAPER: [u8; 4] = [255; 4];
const INK: [u8; 4] = [0, 0, 0, 255];
const WHITE: [u8; 4] = [255; 4];
/// Around a panel, and between its parts.
const GAP: usize = 6;
const BAR: usize = 14;
const TICK: usize = 4;
/// The part of the width that a scale bar takes at most.
const SCALE_BAR: f64 = 0.3;
/// The least digits of numbers that stand alone.
const DIGITS: i32 = 4;
/// Letters grow with pictures: once for so many pixels.
const LARGE: usize = 900;

/// What stands beside the result.
pub(super) enum Key<'a> {
    /// A colour bar with numbers.
    Bar(&'a Colormap, Scale),
    /// The wheel of directions with the names of two, the length of full saturation, and what was
    /// subtracted.
    Wheel(VectorScale, [&'static str; 2]),
    /// Of lines: numbers from bottom to top, and those of the axis below.
    Line(Scale, Option<Axis>, usize),
    /// Nothing.
    Nothing,
}

/// Puts a panel together. `axes` are those of the result, if they are calibrated.
pub(super) fn panel(
    mut result: Picture,
    title: &str,
    key: &Key<'_>,
    axes: Option<(&Axis, &Axis)>,
) -> Picture {
    let size = result.width().max(result.height());
    let factor = size.div_ceil(LARGE).max(1);
    if let Some((y, x)) = axes {
        scale_bar(&mut result, y, x, factor);
    }
    let body = match key {
        Key::Bar(colours, scale) => {
            let scale_picture = colour_bar(colours, scale, result.height(), factor);
            side_by_side(&result, &scale_picture)
        }
        Key::Wheel(scale, names) => {
            let key = named_wheel(scale, *names, result.height(), factor);
            side_by_side(&result, &key)
        }
        Key::Nothing => result,
        Key::Line(scale, axis, len) => with_numbers(&result, scale, axis.as_ref(), *len, factor),
    };
    let title = text(title, INK, factor);
    let width = body.width().max(title.width()) + 2 * GAP;
    let top = title.height() + 2 * GAP;
    let mut panel = Picture::filled(width, top + body.height() + GAP, PAPER);
    over(&mut panel, &title, GAP, GAP);
    panel.paste(&body, top, GAP);
    panel
}

/// A length in the picture, at the bottom on the left.
fn scale_bar(picture: &mut Picture, y: &Axis, x: &Axis, factor: usize) {
    let (across, down) = (x.size as f64 * x.scale.abs(), y.size as f64 * y.scale.abs());
    let square = across / picture.width() as f64 * picture.height() as f64 / down;
    if x.unit.is_empty() || x.unit != y.unit || !(across > 0.0 && (0.99..1.01).contains(&square)) {
        return;
    }
    let length = round_length(SCALE_BAR * across);
    let words = format!("{} {}", number(length, length, DIGITS), x.unit);
    let name = text(&words, WHITE, factor);
    let shade = text(&words, INK, factor);
    let width = (length / across * picture.width() as f64).round() as usize;
    let (thick, margin) = (3 * factor, 2 * GAP * factor);
    let needed = margin + thick + GAP + name.height();
    if picture.height() < needed + GAP || picture.width() < margin + name.width().max(width) + GAP {
        return;
    }
    let bottom = picture.height() - margin;
    for (grow, colour) in [(factor, INK), (0, WHITE)] {
        for row in bottom - thick - grow..bottom + grow {
            for column in margin - grow..margin + width + grow {
                picture.set(row, column, colour);
            }
        }
    }
    let top = bottom - thick - GAP / 2 - name.height();
    let left = (margin + width / 2).saturating_sub(name.width() / 2).max(GAP);
    for (down, right) in [(0, 1), (2, 1), (1, 0), (1, 2)] {
        let at = |start: usize, move_by: usize| start + move_by * factor - factor;
        over(picture, &shade, at(top, down), at(left, right));
    }
    over(picture, &name, top, left);
}

/// A colour bar, with numbers on its right.
fn colour_bar(colours: &Colormap, scale: &Scale, height: usize, factor: usize) -> Picture {
    let colours = bar(colours, BAR * factor, height);
    let marks = marks(scale, height, factor);
    let width = marks.iter().map(|(_, label)| label.width()).max().unwrap_or(0);
    let left = colours.width() + TICK * factor + 2;
    let mut picture = Picture::filled(left + width, height, PAPER);
    picture.paste(&colours, 0, 0);
    for (row, label) in &marks {
        for thick in 0..factor {
            (colours.width()..left - 2).for_each(|x| picture.set(row + thick, x, INK));
        }
        let top = row.saturating_sub(label.height() / 2).min(height.saturating_sub(label.height()));
        over(&mut picture, label, top, left);
    }
    picture
}

/// Rows and numbers of the marks of a scale that has its high end at the top: not too close.
fn marks(scale: &Scale, height: usize, factor: usize) -> Vec<(usize, Picture)> {
    let mut marks: Vec<(usize, Picture)> = Vec::new();
    let mut found = ticks(scale);
    let room = height / (LINE * factor + 2);
    if found.len() > room.max(1) {
        // The ends are what counts most.
        let (first, last) = (found.first().copied(), found.last().copied());
        found = if room < 2 {
            last.into_iter().collect()
        } else {
            first.into_iter().chain(last).collect()
        };
    }
    for (value, label) in found.iter().zip(labels(&found, scale.max - scale.min)) {
        let position = scale.position(*value).unwrap_or(0.0);
        let row = ((1.0 - position) * height.saturating_sub(1) as f64).round() as usize;
        marks.push((row, text(&label, INK, factor)));
    }
    marks
}

/// The wheel of directions with the names of two, the length at its rim, and what was subtracted.
fn named_wheel(scale: &VectorScale, names: [&str; 2], height: usize, factor: usize) -> Picture {
    let disk = wheel((height / 3).clamp(40, 128 * factor));
    let [right, below] = names.map(|name| text(name, INK, factor));
    let digits = |value: f64| number(value, scale.max - scale.min, DIGITS);
    let length = text(&digits(scale.max), INK, factor);
    let (y, x) = scale.offset;
    let offset = match (y, x) {
        (0.0, 0.0) => vec![],
        _ => vec!["relative to".to_owned(), format!("y {}", digits(y)), format!("x {}", digits(x))],
    };
    let offset: Vec<Picture> = offset.iter().map(|line| text(line, INK, factor)).collect();
    let widest = offset.iter().map(Picture::width).max().unwrap_or(0);
    let width = (disk.width() + 2 + right.width()).max(length.width()).max(widest);
    let top = length.height() + 2;
    let bottom = top + disk.height() + 2 + below.height();
    let below_it = if offset.is_empty() { 0 } else { GAP + offset.len() * LINE * factor };
    let mut picture = Picture::filled(width, bottom + below_it, PAPER);
    for (i, line) in offset.iter().enumerate() {
        over(&mut picture, line, bottom + GAP + i * LINE * factor, 0);
    }
    over(&mut picture, &length, 0, (disk.width() / 2).saturating_sub(length.width() / 2));
    over(&mut picture, &disk, top, 0);
    let middle = top + (disk.height() / 2).saturating_sub(right.height() / 2);
    over(&mut picture, &right, middle, disk.width() + 2);
    let left = (disk.width() / 2).saturating_sub(below.width() / 2);
    over(&mut picture, &below, top + disk.height() + 2, left);
    picture
}

/// A line with numbers on its left and below, and the name of the axis.
fn with_numbers(
    line: &Picture,
    scale: &Scale,
    axis: Option<&Axis>,
    len: usize,
    factor: usize,
) -> Picture {
    let high = marks(scale, line.height(), factor);
    let numbers = high.iter().map(|(_, label)| label.width()).max().unwrap_or(0);
    let (first, step) = axis.map_or((0.0, 1.0), |axis| (axis.offset, axis.scale));
    let last = first + step * len.saturating_sub(1) as f64;
    let across = Scale { min: first.min(last), max: first.max(last), log: false };
    let name = axis.map_or(String::new(), |axis| match axis.unit.as_str() {
        "" => axis.name.clone(),
        unit => format!("{} ({unit})", axis.name),
    });
    let name = text(&name, INK, factor);
    let line_height = LINE * factor;
    let values = ticks(&across);
    let labels: Vec<Picture> = labels(&values, across.max - across.min)
        .iter()
        .map(|label| text(label, INK, factor))
        .collect();
    let widest = labels.iter().map(Picture::width).max().unwrap_or(0);
    // Numbers at the ends of the axis stand out on both sides.
    let left = (numbers + 2 + TICK * factor).max(widest / 2);
    let right = numbers.max(widest / 2);
    let below = TICK * factor + 2 + 2 * line_height + 2;
    let half_line = line_height / 2 + 1;
    let mut picture =
        Picture::filled(left + line.width() + right, half_line + line.height() + below, PAPER);
    picture.paste(line, half_line, left);
    for (row, label) in &high {
        for thick in 0..factor {
            (left - TICK * factor..left).for_each(|x| picture.set(half_line + row + thick, x, INK));
        }
        let top = (half_line + row).saturating_sub(label.height() / 2);
        over(&mut picture, label, top, left - TICK * factor - 2 - label.width());
    }
    let bottom = half_line + line.height();
    let column = |value: f64| {
        // The middle of the columns that a value takes.
        let place = if step == 0.0 { 0.0 } else { (value - first) / step };
        (place + 0.5) / len.max(1) as f64 * line.width() as f64
    };
    let apart = match values[..] {
        [one, other, ..] => (column(other) - column(one)).abs(),
        _ => f64::INFINITY,
    };
    // As many numbers as there is room for.
    let every = ((widest + LETTER * factor) as f64 / apart).ceil().max(1.0) as usize;
    for (i, (value, label)) in values.iter().zip(&labels).enumerate() {
        let column = left + (column(*value) as usize).min(line.width().saturating_sub(1));
        for thick in 0..factor {
            (bottom..bottom + TICK * factor).for_each(|y| picture.set(y, column + thick, INK));
        }
        if i.is_multiple_of(every) {
            let start = column.saturating_sub(label.width() / 2);
            over(&mut picture, label, bottom + TICK * factor + 2, start);
        }
    }
    let start = left + (line.width() / 2).saturating_sub(name.width() / 2);
    over(&mut picture, &name, bottom + TICK * factor + 2 + line_height, start);
    picture
}

fn side_by_side(left: &Picture, right: &Picture) -> Picture {
    let (width, height) = (left.width() + GAP + right.width(), left.height().max(right.height()));
    let mut joined = Picture::filled(width, height, PAPER);
    joined.paste(left, 0, 0);
    joined.paste(right, 0, left.width() + GAP);
    joined
}

/// Copies what is not transparent.
fn over(picture: &mut Picture, other: &Picture, top: usize, left: usize) {
    for y in 0..other.height() {
        for x in 0..other.width() {
            let pixel = other.pixel(y, x);
            if pixel[3] != MISSING[3] {
                picture.set(top + y, left + x, pixel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold::core::AxisKind;

    fn axis(scale: f64, unit: &str) -> Axis {
        Axis {
            name: "x".into(),
            kind: AxisKind::Sig,
            size: 100,
            scale,
            offset: 0.0,
            unit: unit.into(),
        }
    }

    fn count(picture: &Picture, colour: [u8; 4]) -> usize {
        picture.pixels().iter().filter(|pixel| **pixel == colour).count()
    }

    #[test]
    fn scale_bars_are_as_long_as_they_say() {
        let grey = Picture::filled(400, 400, [90, 90, 90, 255]);
        let mut with_bar = grey.clone();
        scale_bar(&mut with_bar, &axis(0.5, "nm"), &axis(0.5, "nm"), 1);
        // 10 nm of 50 nm.
        let row = 400 - 2 * GAP - 2;
        let white = (0..400).filter(|&x| with_bar.pixel(row, x) == WHITE).count();
        assert_eq!(white, 80);
        for (y, x) in [(axis(0.5, "nm"), axis(0.5, "mrad")), (axis(0.5, ""), axis(0.5, ""))] {
            let mut without = grey.clone();
            scale_bar(&mut without, &y, &x, 1);
            assert_eq!(without, grey);
        }
        let mut oblong = grey.clone();
        scale_bar(&mut oblong, &axis(2.0, "nm"), &axis(0.5, "nm"), 1);
        assert_eq!(oblong, grey, "a bar would be of another length downwards");
        let mut small = Picture::filled(20, 20, INK);
        scale_bar(&mut small, &axis(0.5, "nm"), &axis(0.5, "nm"), 1);
        assert_eq!(count(&small, WHITE), 0);
    }

    fn around(offset: f64) -> VectorScale {
        VectorScale { offset: (offset, 0.0), min: 0.0, max: 2.5 }
    }

    #[test]
    fn wheels_say_what_was_subtracted() {
        let drawn = |offset| named_wheel(&around(offset), ["x", "y"], 100, 1);
        let (without, with) = (drawn(0.0), drawn(-12.5));
        assert_eq!(with.height(), without.height() + GAP + 3 * LINE);
        assert!(count(&with, INK) > count(&without, INK) + 100);
    }

    #[test]
    fn wide_numbers_have_room() {
        let line = Picture::filled(120, 60, PAPER);
        let scale = Scale { min: 0.0, max: 1.0, log: false };
        let drawn = |offset: f64| {
            let axis = Axis { offset, scale: 1.0, ..axis(1.0, "eV") };
            with_numbers(&line, &scale, Some(&axis), 7, 1)
        };
        // The words at the marks, left to right, as columns with ink.
        let inked = |picture: &Picture| -> Vec<bool> {
            let top = picture.height() - 2 - 2 * LINE;
            (0..picture.width())
                .map(|x| (top..top + LINE).any(|y| picture.pixel(y, x) == INK))
                .collect()
        };
        let short = inked(&drawn(0.0));
        let digits = |ink: &[bool]| ink.split(|ink| !ink).filter(|part| !part.is_empty()).count();
        assert_eq!(digits(&short), 7);
        // Of 1234500000 to 1234500006, every fifth.
        let wide = inked(&drawn(1_234_500_000.0));
        assert_eq!(digits(&wide), 2 * "1234500000".len());
        assert!(!wide[wide.len() - 1] && wide.len() > short.len());
    }

    #[test]
    fn panels_have_numbers_beside_their_colours() {
        let gray = Colormap::by_name("gray").unwrap();
        let picture = Picture::filled(100, 100, [9, 9, 9, 255]);
        let scale = Scale { min: 0.0, max: 10.0, log: false };
        let drawn = panel(picture.clone(), "sum", &Key::Bar(&gray, scale), None);
        assert_eq!(drawn.pixel(40, 20), [9, 9, 9, 255]);
        assert!(drawn.width() > 100 + BAR + 2 * GAP && drawn.height() > 100 + 13);
        assert!(count(&drawn, INK) > 100);
        let drawn = panel(picture.clone(), "com", &Key::Wheel(around(0.0), ["x", "y"]), None);
        assert!(drawn.width() > 140);
        let key = Key::Line(scale, Some(axis(0.1, "eV")), 100);
        let drawn = panel(picture, "line", &key, None);
        assert!(drawn.height() > 100 + 3 * 13);
        for (height, n) in [(1, 1), (20, 1), (32, 2), (200, 6)] {
            assert_eq!(marks(&scale, height, 1).len(), n, "{height}");
        }
    }
}

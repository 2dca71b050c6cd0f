//! Small pictures that say what the colours mean.

use super::{Colormap, MISSING, Picture, direction_colour};

/// A vertical bar of the colour map, the high end at the top.
pub fn bar(colours: &Colormap, width: usize, height: usize) -> Picture {
    let last = height.saturating_sub(1).max(1) as f64;
    Picture::from_fn(width, height, |y, _| colours.colour(1.0 - y as f64 / last))
}

/// A disk that shows the colour of every direction and length, as drawn for vector fields.
pub fn wheel(diameter: usize) -> Picture {
    let centre = (diameter as f64 - 1.0) / 2.0;
    let radius = (diameter as f64 / 2.0).max(0.5);
    Picture::from_fn(diameter, diameter, |y, x| {
        let (y, x) = (y as f64 - centre, x as f64 - centre);
        let length = y.hypot(x) / radius;
        if length > 1.0 {
            return MISSING;
        }
        let [r, g, b] = direction_colour(y, x, length);
        [r, g, b, 255]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_end_is_at_the_top() {
        let bar = bar(&Colormap::by_name("gray").unwrap(), 2, 16);
        assert_eq!(bar.pixel(0, 1), [255; 4]);
        assert_eq!(bar.pixel(15, 0), [0, 0, 0, 255]);
    }

    #[test]
    fn the_wheel_is_round_and_has_the_colours_of_directions() {
        let wheel = wheel(41);
        assert_eq!(wheel.pixel(0, 0), MISSING);
        assert_eq!(wheel.pixel(20, 20), [127, 127, 127, 255]);
        let [r, g, b] = direction_colour(0.0, 1.0, 20.0 / 20.5);
        assert_eq!(wheel.pixel(20, 40), [r, g, b, 255]);
    }
}

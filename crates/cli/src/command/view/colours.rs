//! The colour maps of pictures, for the viewer.

use crate::render::{COLORMAPS, Colormap, direction_colour};
use framefold_view::Colormap as Sent;
use std::f64::consts::TAU;

/// All colour maps, the default first; the last one, `direction`, is for angles from +x towards +y.
pub(crate) fn colormaps() -> Vec<Sent> {
    let maps = COLORMAPS.iter().filter_map(|name| {
        let map = Colormap::by_name(name)?;
        let colour = |i: u16| {
            let [red, green, blue, _] = map.colour((f64::from(i) + 0.5) / 256.0);
            [red, green, blue]
        };
        Some(Sent { name: (*name).to_owned(), colours: (0..256).map(colour).collect() })
    });
    let direction = |i: u16| {
        let (y, x) = (TAU * f64::from(i) / 256.0).sin_cos();
        direction_colour(y, x, 1.0)
    };
    let direction =
        Sent { name: "direction".to_owned(), colours: (0..256).map(direction).collect() };
    maps.chain([direction]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_colours_are_sent_as_they_are() {
        let maps = colormaps();
        let names: Vec<&str> = maps.iter().map(|map| map.name.as_str()).collect();
        assert_eq!(names[..COLORMAPS.len()], *COLORMAPS);
        assert_eq!(names[COLORMAPS.len()..], ["direction"]);
        assert!(maps.iter().all(|map| map.colours.len() == 256));
        let gray = maps.iter().find(|map| map.name == "gray").unwrap();
        assert!((0..=255).all(|level| gray.colours[usize::from(level)] == [level; 3]));
        let direction = &maps.last().unwrap().colours;
        assert_eq!(direction[64], direction_colour(1.0, 0.0, 1.0));
        // It is cyclic: no step is larger than the others.
        let step = |a: [u8; 3], b: [u8; 3]| -> i32 {
            a.iter().zip(b).map(|(a, b)| (i32::from(*a) - i32::from(b)).abs()).max().unwrap()
        };
        let steps = (0..256).map(|i| step(direction[i], direction[(i + 1) % 256]));
        assert!(steps.max().unwrap() <= 16);
    }
}

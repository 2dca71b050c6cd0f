//! The colours of directions, for the pictures of the command line and of the Python package.
//!
//! Hue shows the direction, saturation the length, from grey to as much as a screen shows. All
//! colours are equally light, so that direction and length do not look like relief. Orange points
//! to the right (+x), and the hue turns with the angle from +x towards +y, which is downwards in
//! a picture: green is down, blue left, purple up.
//!
//! The colour space is OKLab, B. Ottosson, "A perceptual color space for image processing" (2020),
//! <https://bottosson.github.io/posts/oklab/>.

use std::sync::OnceLock;

/// Lightness of all colours: that of the grey 127.
const LIGHTNESS: f64 = 0.598;
/// Chroma at full saturation, where a screen can show it.
const CHROMA: f64 = 0.18;
/// Hue in degrees of the direction +x.
const HUE: f64 = 38.5;

/// From OKLab's a and b to cube roots of cone responses.
const LAB_TO_LMS: [[f64; 2]; 3] = [
    [0.396_337_777_4, 0.215_803_757_3],
    [-0.105_561_345_8, -0.063_854_172_8],
    [-0.089_484_177_5, -1.291_485_548_0],
];
/// From cone responses to linear sRGB.
const LMS_TO_RGB: [[f64; 3]; 3] = [
    [4.076_741_662_1, -3.307_711_591_3, 0.230_969_929_2],
    [-1.268_438_004_6, 2.609_757_401_1, -0.341_319_396_5],
    [-0.004_196_086_3, -0.703_418_614_7, 1.707_614_701_0],
];

/// The colour of direction (y, x) with saturation 0 to 1, as RGB.
pub fn direction_colour(y: f64, x: f64, saturation: f64) -> [u8; 3] {
    let hue = y.atan2(x) + HUE.to_radians();
    let chroma = saturation.clamp(0.0, 1.0) * most_chroma(hue.to_degrees());
    let (sin, cos) = hue.sin_cos();
    linear_rgb(chroma * cos, chroma * sin).map(|linear| {
        // The transfer function of sRGB, IEC 61966-2-1.
        let linear = linear.clamp(0.0, 1.0);
        let encoded = match linear <= 0.003_130_8 {
            true => 12.92 * linear,
            false => 1.055 * linear.powf(1.0 / 2.4) - 0.055,
        };
        (255.0 * encoded).round_ties_even() as u8
    })
}

/// Linear sRGB of the OKLab colour `(LIGHTNESS, a, b)`.
fn linear_rgb(a: f64, b: f64) -> [f64; 3] {
    let [l, m, s] = LAB_TO_LMS.map(|[of_a, of_b]| (LIGHTNESS + a * of_a + b * of_b).powi(3));
    LMS_TO_RGB.map(|[of_l, of_m, of_s]| of_l * l + of_m * m + of_s * s)
}

/// The chroma at full saturation, between those of the nearest whole degrees of hue.
fn most_chroma(degrees: f64) -> f64 {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    let table = TABLE.get_or_init(|| (0..=360).map(shown_chroma).collect());
    let degrees = degrees.rem_euclid(360.0);
    let below = degrees.floor();
    let at = |i: usize| table.get(i).copied().unwrap_or(0.0);
    let (one, next) = (at(below as usize), at(below as usize + 1));
    one + (degrees - below) * (next - one)
}

/// The most chroma, up to [`CHROMA`], that a screen can show with a hue, as with all lower ones.
fn shown_chroma(degrees: u16) -> f64 {
    let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
    let steps = (0..=180).map(|step| f64::from(step) / 180.0 * CHROMA);
    let shown = |chroma: &f64| {
        linear_rgb(chroma * cos, chroma * sin).iter().all(|part| (0.0..=1.0).contains(part))
    };
    steps.take_while(shown).last().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hue_follows_direction_and_saturation_length() {
        let at = |y, x| direction_colour(y, x, 1.0);
        // Which part is strongest, and which weakest.
        let [r, g, b] = at(0.0, 1.0);
        assert!(r > g && g > b, "orange");
        let [r, g, b] = at(1.0, 0.0);
        assert!(g > r && r > b, "green");
        let [r, g, b] = at(0.0, -1.0);
        assert!(b > g && g > r, "blue");
        let [r, g, b] = at(-1.0, 0.0);
        assert!(b > r && r > g, "purple");
        let spread = |saturation| {
            let rgb = direction_colour(0.0, 1.0, saturation);
            rgb.iter().max().unwrap() - rgb.iter().min().unwrap()
        };
        assert!(spread(1.0) > spread(0.5) && spread(0.5) > spread(0.1) && spread(0.1) > 0);
        assert_eq!(direction_colour(3.0, -2.0, 0.0), [127; 3]);
        assert_eq!(at(0.0, 5.0), direction_colour(0.0, 1.0, 7.0));
    }

    #[test]
    fn all_are_equally_light_and_on_the_screen() {
        for degrees in 0..=360u16 {
            let chroma = shown_chroma(degrees);
            assert!(chroma > 0.08, "{degrees}");
            let (sin, cos) = f64::from(degrees).to_radians().sin_cos();
            let rgb = linear_rgb(chroma * cos, chroma * sin);
            assert!(rgb.iter().all(|part| (0.0..=1.0).contains(part)), "{degrees}: {rgb:?}");
        }
    }
}

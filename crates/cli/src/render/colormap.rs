//! Tables of 256 colours for values from low to high.

mod tables;

/// The names of all colour maps; the first is the default.
///
/// All but `turbo` are perceptually uniform: equal steps in value look like equal steps.
pub const COLORMAPS: &[&str] =
    &["viridis", "inferno", "magma", "plasma", "cividis", "gray", "turbo"];

/// A colour for every value between 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colormap {
    table: Vec<[u8; 4]>,
}

impl Colormap {
    /// The colour map of that name, one of [`COLORMAPS`].
    pub fn by_name(name: &str) -> Option<Self> {
        let table = match name {
            "viridis" => opaque(&tables::VIRIDIS),
            "inferno" => opaque(&tables::INFERNO),
            "magma" => opaque(&tables::MAGMA),
            "plasma" => opaque(&tables::PLASMA),
            "cividis" => opaque(&tables::CIVIDIS),
            "gray" => (0..=255).map(|level| [level, level, level, 255]).collect(),
            "turbo" => opaque(&tables::TURBO),
            _ => return None,
        };
        Some(Colormap { table })
    }

    /// The colour at `position`; below 0 and above 1 the ends are used.
    pub fn colour(&self, position: f64) -> [u8; 4] {
        let last = self.table.len().saturating_sub(1);
        let index = (position.clamp(0.0, 1.0) * 256.0) as usize;
        self.table.get(index.min(last)).copied().unwrap_or(super::MISSING)
    }
}

impl Default for Colormap {
    fn default() -> Self {
        Colormap { table: opaque(&tables::VIRIDIS) }
    }
}

fn opaque(colours: &[u32; 256]) -> Vec<[u8; 4]> {
    let bytes = colours.iter().map(|colour| colour.to_be_bytes());
    bytes.map(|[_, red, green, blue]| [red, green, blue, 255]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_exists() {
        for name in COLORMAPS {
            let map = Colormap::by_name(name).unwrap();
            assert_eq!(map.table.len(), 256);
            assert!(map.table.iter().all(|colour| colour[3] == 255), "{name}");
        }
        assert_eq!(Colormap::by_name("jet"), None);
        assert_eq!(Colormap::by_name(COLORMAPS[0]), Some(Colormap::default()));
    }

    #[test]
    fn uniform_maps_get_steadily_lighter() {
        for name in &COLORMAPS[..6] {
            let map = Colormap::by_name(name).unwrap();
            let lightness = |position: f64| {
                let [r, g, b, _] = map.colour(position).map(f64::from);
                0.2126 * r + 0.7152 * g + 0.0722 * b
            };
            for step in 0..20 {
                let position = f64::from(step) / 20.0;
                assert!(lightness(position) < lightness(position + 0.05), "{name} at {position}");
            }
        }
    }

    #[test]
    fn ends_are_clamped() {
        let map = Colormap::by_name("gray").unwrap();
        assert_eq!(map.colour(-1.0), [0, 0, 0, 255]);
        assert_eq!(map.colour(7.0), [255, 255, 255, 255]);
        assert_eq!(map.colour(0.5), [128, 128, 128, 255]);
    }
}

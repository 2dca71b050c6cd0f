//! How pixels and chips are arranged in a frame.

use framefold_core::DType;
use std::fmt;

/// How pixels are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PixelKind {
    /// 8-bit unsigned: 1-bit and 6-bit counters.
    U8,
    /// 16-bit big-endian unsigned: 12-bit counters.
    U16,
    /// 32-bit big-endian unsigned: 24-bit counters.
    U32,
    /// One byte for each 1-bit counter, under its own name.
    U1,
    /// 64-bit integers.
    U64,
    /// As read from the chips, in words of 64 bits.
    Raw,
}

/// Bits per counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    One,
    Six,
    Twelve,
    TwentyFour,
}

/// How the chips are arranged on the sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SensorLayout {
    /// A single chip.
    Single,
    /// Two by two chips.
    Quad {
        /// Whether pixels are inserted between the chips.
        gap: bool,
    },
    /// Chips in one row.
    Row {
        /// Whether pixels are inserted between the chips.
        gap: bool,
    },
    /// Any other grid of chips.
    Other,
}

impl PixelKind {
    /// Parses the pixel format field.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "U01" => PixelKind::U1,
            "U08" => PixelKind::U8,
            "U16" => PixelKind::U16,
            "U32" => PixelKind::U32,
            "U64" => PixelKind::U64,
            "R64" => PixelKind::Raw,
            _ => return None,
        })
    }
}

impl fmt::Display for PixelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PixelKind::U1 => "U01",
            PixelKind::U8 => "U08",
            PixelKind::U16 => "U16",
            PixelKind::U32 => "U32",
            PixelKind::U64 => "U64",
            PixelKind::Raw => "R64",
        })
    }
}

impl Depth {
    /// The depth of `bits` bits.
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            1 => Some(Depth::One),
            6 => Some(Depth::Six),
            12 => Some(Depth::Twelve),
            24 => Some(Depth::TwentyFour),
            _ => None,
        }
    }

    /// The number of bits.
    pub(super) fn bits(self) -> u64 {
        match self {
            Depth::One => 1,
            Depth::Six => 6,
            Depth::Twelve => 12,
            Depth::TwentyFour => 24,
        }
    }

    /// Pixels in one word of 8 bytes.
    pub(super) fn pixels_per_word(self) -> usize {
        match self {
            Depth::One => 64,
            Depth::Six => 8,
            Depth::Twelve | Depth::TwentyFour => 4,
        }
    }

    /// The dtype that holds every value a raw file can have.
    pub(super) fn dtype(self) -> DType {
        match self {
            Depth::One | Depth::Six => DType::U8,
            Depth::Twelve => DType::U16,
            Depth::TwentyFour => DType::U32,
        }
    }
}

impl SensorLayout {
    /// Parses `1x1`, `2x2`, `2x2G`, `Nx1`, `4x1G` and the like.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (grid, gap) = match text.strip_suffix(['G', 'g']) {
            Some(grid) => (grid, true),
            None => (text, false),
        };
        let (across, down) = grid.split_once(['x', 'X'])?;
        let count = |text: &str| match text.as_bytes() {
            [digit @ b'1'..=b'9'] => Some(u64::from(digit - b'0')),
            _ => None,
        };
        let down = count(down)?;
        let across = if across.eq_ignore_ascii_case("n") { None } else { Some(count(across)?) };
        Some(match (across, down) {
            (Some(1), 1) => SensorLayout::Single,
            (Some(2), 2) => SensorLayout::Quad { gap },
            (_, 1) => SensorLayout::Row { gap },
            _ => SensorLayout::Other,
        })
    }
}

impl fmt::Display for SensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SensorLayout::Single => "1x1",
            SensorLayout::Quad { gap: false } => "2x2",
            SensorLayout::Quad { gap: true } => "2x2 with gap pixels",
            SensorLayout::Row { gap: false } => "Nx1",
            SensorLayout::Row { gap: true } => "Nx1 with gap pixels",
            SensorLayout::Other => "other",
        })
    }
}

/// How a raw frame is put together from the rows of its chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawLayout {
    /// Bits per counter.
    pub(super) depth: Depth,
    /// Pixels in a row of one chip.
    pub(super) chip_width: usize,
    /// Rows that were read of each chip.
    pub(super) chip_rows: usize,
    /// The arrangement of the chips.
    pub(super) chips: Chips,
}

/// The arrangements of chips that raw frames can be decoded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chips {
    /// A single chip.
    One,
    /// Two by two chips, with that many empty rows and columns inserted between them.
    Quad {
        /// Rows and columns in the gap.
        gap: usize,
    },
}

/// Empty rows and columns between the chips of a quad detector, where they are inserted.
pub(super) const GAP: usize = 2;

impl RawLayout {
    /// Rows and columns of the assembled frame.
    pub(super) fn sig_shape(&self) -> [usize; 2] {
        match self.chips {
            Chips::One => [self.chip_rows, self.chip_width],
            Chips::Quad { gap } => [2 * self.chip_rows + gap, 2 * self.chip_width + gap],
        }
    }

    /// Bytes of one row of one chip (of one of the two images, with 24 bits).
    pub(super) fn chip_row_bytes(&self) -> usize {
        self.chip_width / self.depth.pixels_per_word() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let parse = SensorLayout::parse;
        assert_eq!(parse("1x1"), Some(SensorLayout::Single));
        assert_eq!(parse("2x2G"), Some(SensorLayout::Quad { gap: true }));
        assert_eq!(parse("Nx1G"), Some(SensorLayout::Row { gap: true }));
        assert_eq!(parse("4X1"), Some(SensorLayout::Row { gap: false }));
        assert_eq!(parse("3x2"), Some(SensorLayout::Other));
        for bad in ["", "x", "2x", "x2", "0x1", "axb", "22x1", "G", "1x1x1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

//! From what a header says to the geometry of a frame.

use super::header::Header;
use super::layout::{Chips, Depth, GAP, PixelKind, RawLayout, SensorLayout};
use framefold_core::{ByteOrder, DType, Error, Result, StoredDType};

/// The shape of a frame and how its pixels lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Rows and columns of a frame.
    pub(super) sig_shape: [usize; 2],
    /// The dtype of its pixels; for raw frames that of the decoded ones.
    pub(super) dtype: StoredDType,
    /// Bytes of the header.
    pub(super) header_bytes: u64,
    /// Bytes of the pixels of one frame.
    pub(super) payload_bytes: u64,
    /// How to decode them, where they are not simply lying there.
    pub(super) raw: Option<RawLayout>,
}

impl Geometry {
    /// The geometry of frames with this header.
    ///
    /// `depth` is the counter depth from elsewhere, used where the header has none.
    /// `insert_gap` asks for the gap of a quad detector in raw frames, which the file leaves out.
    ///
    /// # Errors
    /// `Unsupported` for what cannot be decoded, `BadFile` where the numbers contradict.
    pub(super) fn try_new(header: &Header, depth: Option<Depth>, insert_gap: bool) -> Result<Self> {
        match header.kind {
            PixelKind::U8 => Geometry::plain(header, DType::U8),
            PixelKind::U16 => Geometry::plain(header, DType::U16),
            PixelKind::U32 => Geometry::plain(header, DType::U32),
            PixelKind::Raw => Geometry::raw(header, header.depth.or(depth), insert_gap),
            kind @ (PixelKind::U1 | PixelKind::U64) => Err(Error::unsupported(format!(
                "pixel format {kind} is not known well enough to be read"
            ))
            .with_hint("export the data as U08, U16 or U32 with the detector's software")),
        }
    }

    fn plain(header: &Header, dtype: DType) -> Result<Self> {
        let bytes = u64::try_from(dtype.size()).ok();
        let payload = header
            .width
            .checked_mul(header.height)
            .and_then(|pixels| pixels.checked_mul(bytes?))
            .ok_or_else(|| too_large(header))?;
        Ok(Geometry {
            sig_shape: [axis(header.height, header)?, axis(header.width, header)?],
            dtype: StoredDType { dtype, order: ByteOrder::Big },
            header_bytes: header.len_bytes,
            payload_bytes: payload,
            raw: None,
        })
    }

    fn raw(header: &Header, depth: Option<Depth>, insert_gap: bool) -> Result<Self> {
        let Some(depth) = depth else {
            return Err(Error::unsupported(
                "raw frames (R64) without a counter depth: neither the frame header has one \
                 after 'MQ1A', nor is there a .hdr file that gives 'Counter Depth'",
            )
            .with_hint("put the .hdr file of the acquisition next to the .mib file"));
        };
        let quad = match (header.n_chips, header.layout) {
            // The layout is that of the camera; with one chip read, it says nothing.
            (1, _) => false,
            (4, SensorLayout::Quad { .. }) => true,
            (n, layout) => {
                return Err(unsupported_raw(header, format!("of {n} chips in layout {layout}")));
            }
        };
        if quad && header.chip_select.is_some_and(|mask| mask & 0xF != 0xF) {
            return Err(unsupported_raw(header, "of which only some chips were read".into()));
        }
        if quad && depth == Depth::TwentyFour {
            return Err(unsupported_raw(header, "of four chips with 24-bit counters".into()));
        }
        // With 24 bits there are two images of half the depth, and the width counts both.
        let chip_rows_across = if quad { 4 } else { 1 };
        let divisor = if depth == Depth::TwentyFour { 2 } else { chip_rows_across };
        let word = u64::try_from(depth.pixels_per_word()).unwrap_or(u64::MAX);
        let chip_width = header.width / divisor;
        let whole = header.width.is_multiple_of(divisor) && chip_width.is_multiple_of(word);
        if !whole || chip_width == 0 {
            return Err(Error::bad_file(format!(
                "raw frames {} pixels wide cannot be cut into {divisor} x {word} pixels",
                header.width
            )));
        }
        let bits_per_pixel = match depth {
            Depth::One => 1,
            Depth::Six => 8,
            Depth::Twelve | Depth::TwentyFour => 16,
        };
        let payload = header
            .width
            .checked_mul(header.height)
            .and_then(|pixels| pixels.checked_mul(bits_per_pixel))
            .ok_or_else(|| too_large(header))?
            / 8;
        let (chip_width, chip_rows) = (axis(chip_width, header)?, axis(header.height, header)?);
        let chips = if quad {
            let has_gap = matches!(header.layout, SensorLayout::Quad { gap: true });
            Chips::Quad { gap: if has_gap && insert_gap { GAP } else { 0 } }
        } else {
            Chips::One
        };
        let layout = RawLayout { depth, chip_width, chip_rows, chips };
        Ok(Geometry {
            sig_shape: layout.sig_shape(),
            dtype: StoredDType::native(depth.dtype()),
            header_bytes: header.len_bytes,
            payload_bytes: payload,
            raw: Some(layout),
        })
    }

    /// Bytes from the start of one frame's header to that of the next one.
    pub(super) fn stride_bytes(&self) -> u64 {
        // Both are far below 2^48, as header axes and lengths are limited.
        self.header_bytes.saturating_add(self.payload_bytes)
    }
}

fn axis(len: u64, header: &Header) -> Result<usize> {
    usize::try_from(len).map_err(|_| too_large(header))
}

fn too_large(header: &Header) -> Error {
    Error::bad_file(format!(
        "frames of {} x {} pixels are too large to be real",
        header.width, header.height
    ))
}

fn unsupported_raw(header: &Header, what: String) -> Error {
    Error::unsupported(format!(
        "raw frames (R64, {} x {} pixels) {what}",
        header.width, header.height
    ))
    .with_hint(
        "raw frames of one chip (1, 6, 12 or 24 bits) and of 2x2 chips (1, 6 or 12 bits) can be \
         read; export others as U08, U16 or U32 with the detector's software",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::ErrorKind;

    fn header(kind: PixelKind, chips: u64, size: (u64, u64), layout: &str, depth: u64) -> Header {
        Header {
            sequence: 1,
            len_bytes: 384,
            n_chips: chips,
            width: size.0,
            height: size.1,
            kind,
            layout: SensorLayout::parse(layout).unwrap(),
            chip_select: Some(if chips == 4 { 15 } else { 1 }),
            timestamp: String::new(),
            exposure_s: None,
            thresholds_kev: vec![],
            depth: Depth::from_bits(depth),
        }
    }

    fn geometry(header: &Header) -> ([usize; 2], DType, u64) {
        let geometry = Geometry::try_new(header, None, false).unwrap();
        (geometry.sig_shape, geometry.dtype.dtype, geometry.payload_bytes)
    }

    #[test]
    fn processed_frames_are_as_the_header_says() {
        let of = |kind, depth| geometry(&header(kind, 4, (514, 514), "2x2G", depth));
        assert_eq!(of(PixelKind::U8, 6), ([514, 514], DType::U8, 514 * 514));
        assert_eq!(of(PixelKind::U16, 12), ([514, 514], DType::U16, 514 * 514 * 2));
        assert_eq!(of(PixelKind::U32, 24), ([514, 514], DType::U32, 514 * 514 * 4));
        assert_eq!(
            geometry(&header(PixelKind::U16, 4, (1024, 256), "Nx1", 12)),
            ([256, 1024], DType::U16, 1024 * 256 * 2)
        );
    }

    #[test]
    fn raw_frames_by_depth_and_chips() {
        let single =
            |width, depth| geometry(&header(PixelKind::Raw, 1, (width, 256), "1x1", depth));
        assert_eq!(single(256, 1), ([256, 256], DType::U8, 256 * 256 / 8));
        assert_eq!(single(256, 6), ([256, 256], DType::U8, 256 * 256));
        assert_eq!(single(256, 12), ([256, 256], DType::U16, 256 * 256 * 2));
        assert_eq!(single(512, 24), ([256, 256], DType::U32, 256 * 256 * 4));
        let quad = |rows, depth| geometry(&header(PixelKind::Raw, 4, (1024, rows), "2x2", depth));
        assert_eq!(quad(256, 1), ([512, 512], DType::U8, 512 * 512 / 8));
        assert_eq!(quad(256, 12), ([512, 512], DType::U16, 512 * 512 * 2));
        assert_eq!(quad(32, 6), ([64, 512], DType::U8, 64 * 512));
        // One chip of a 2x2 camera.
        let one = header(PixelKind::Raw, 1, (256, 256), "2x2", 6);
        assert_eq!(geometry(&one), ([256, 256], DType::U8, 256 * 256));
    }

    #[test]
    fn the_gap_is_inserted_on_demand_only_where_there_is_one() {
        let shape = |layout, insert| {
            let header = header(PixelKind::Raw, 4, (1024, 256), layout, 6);
            let geometry = Geometry::try_new(&header, None, insert).unwrap();
            assert_eq!(geometry.payload_bytes, 512 * 512);
            geometry.sig_shape
        };
        assert_eq!(shape("2x2G", true), [514, 514]);
        assert_eq!(shape("2x2G", false), [512, 512]);
        assert_eq!(shape("2x2", true), [512, 512]);
    }

    #[test]
    fn the_depth_may_come_from_elsewhere() {
        let header = header(PixelKind::Raw, 1, (256, 256), "1x1", 0);
        let error = Geometry::try_new(&header, None, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let geometry = Geometry::try_new(&header, Some(Depth::Twelve), false).unwrap();
        assert_eq!(geometry.dtype.dtype, DType::U16);
    }

    #[test]
    fn what_cannot_be_decoded_is_refused_in_words() {
        let refused = |header: &Header| {
            let error = Geometry::try_new(header, None, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.hint().is_some());
            error.to_string()
        };
        assert!(refused(&header(PixelKind::Raw, 4, (2048, 256), "2x2", 24)).contains("24-bit"));
        assert!(refused(&header(PixelKind::Raw, 4, (1024, 256), "Nx1", 6)).contains("Nx1"));
        assert!(refused(&header(PixelKind::Raw, 2, (512, 256), "2x1", 6)).contains("2 chips"));
        assert!(refused(&header(PixelKind::U64, 1, (256, 256), "1x1", 24)).contains("U64"));
        let mut some = header(PixelKind::Raw, 4, (1024, 256), "2x2", 6);
        some.chip_select = Some(0b0101);
        assert!(refused(&some).contains("only some chips"));
    }

    #[test]
    fn widths_that_are_not_whole_words_are_refused() {
        for (width, chips, depth) in [(100, 1, 1), (255, 1, 6), (30, 4, 12), (1020, 4, 1)] {
            let layout = if chips == 4 { "2x2" } else { "1x1" };
            let header = header(PixelKind::Raw, chips, (width, 8), layout, depth);
            let error = Geometry::try_new(&header, None, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{width} {chips} {depth}");
        }
    }
}

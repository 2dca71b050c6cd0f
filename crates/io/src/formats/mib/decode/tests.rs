//! Known positions of single pixels, and round trips through an encoder written the plain way.

use super::super::layout::Chips;
use super::*;
use framefold_core::TilingScheme;
use proptest::prelude::*;

const DEPTHS: [Depth; 4] = [Depth::One, Depth::Six, Depth::Twelve, Depth::TwentyFour];

fn layout(depth: Depth, chip_width: usize, chip_rows: usize, chips: Chips) -> RawLayout {
    RawLayout { depth, chip_width, chip_rows, chips }
}

/// The whole frame, decoded as `u32`.
fn whole(layout: &RawLayout, stored: &[u8]) -> Vec<u32> {
    let shape = layout.sig_shape();
    let scheme = TilingScheme::try_new(&shape, &shape, 1).unwrap();
    slice(layout, stored, &scheme.slices()[0])
}

fn slice(layout: &RawLayout, stored: &[u8], sig: &SigSlice) -> Vec<u32> {
    slice_of(layout, &layout.sig_shape(), stored, sig)
}

fn slice_of(layout: &RawLayout, sig_shape: &[usize], stored: &[u8], sig: &SigSlice) -> Vec<u32> {
    let decoder = RawDecoder::try_new(*layout, sig_shape).unwrap();
    assert_eq!(decoder.stored_len(), stored.len());
    let stored = &stored[decoder.stored_range(sig)];
    let cells = decoded_by(&decoder, stored, sig);
    for simd in Simd::all() {
        let decoder = RawDecoder { simd, ..decoder.clone() };
        assert_eq!(decoded_by(&decoder, stored, sig), cells, "{simd:?}");
    }
    cells
}

fn decoded_by(decoder: &RawDecoder, stored: &[u8], sig: &SigSlice) -> Vec<u32> {
    // Filled with what was there before: decoding must not depend on it.
    match decoder.layout.depth.dtype().size() {
        1 => {
            let mut out = vec![0xAAu8; sig.len()];
            decoder.decode(stored, sig, &mut out).unwrap();
            out.into_iter().map(u32::from).collect()
        }
        2 => {
            let mut out = vec![0xAAAAu16; sig.len()];
            decoder.decode(stored, sig, bytemuck::cast_slice_mut(&mut out)).unwrap();
            out.into_iter().map(u32::from).collect()
        }
        _ => {
            let mut out = vec![0xAAAA_AAAAu32; sig.len()];
            decoder.decode(stored, sig, bytemuck::cast_slice_mut(&mut out)).unwrap();
            out
        }
    }
}

/// Where pixel (`row`, `column`) is stored: raw row, and column in the row of all chips.
/// `None` in the gap.
fn stored_at(layout: &RawLayout, row: usize, column: usize) -> Option<(usize, usize)> {
    let (w, h) = (layout.chip_width, layout.chip_rows);
    let Chips::Quad { gap } = layout.chips else { return Some((row, column)) };
    let half =
        |i: usize, n: usize| if i < n { Some((0, i)) } else { Some((1, i.checked_sub(n + gap)?)) };
    let ((below, y), (right, x)) = (half(row, h)?, half(column, w)?);
    Some(match (below, right) {
        (0, 0) => (y, 3 * w + x),
        (0, _) => (y, 2 * w + x),
        (_, 0) => (h - 1 - y, w + (w - 1 - x)),
        _ => (h - 1 - y, w - 1 - x),
    })
}

/// Puts `frame` into the form in which the detector stores it.
fn encode(layout: &RawLayout, frame: &[u32]) -> Vec<u8> {
    let [rows, columns] = layout.sig_shape();
    let chips = if layout.chips == Chips::One { 1 } else { 4 };
    let (raw_width, per_word) = (chips * layout.chip_width, layout.depth.pixels_per_word());
    let plane_len = raw_width / per_word * 8 * layout.chip_rows;
    let planes = if layout.depth == Depth::TwentyFour { 2 } else { 1 };
    let mut stored = vec![0u8; plane_len * planes];
    for row in 0..rows {
        for column in 0..columns {
            let Some((raw_row, raw_column)) = stored_at(layout, row, column) else { continue };
            let value = frame[row * columns + column];
            let pixel = raw_row * raw_width + raw_column;
            let (word, place) = (pixel / per_word * 8, pixel % per_word);
            match layout.depth {
                Depth::One => {
                    stored[word + 7 - place / 8] |= u8::try_from(value).unwrap() << (place % 8)
                }
                Depth::Six => stored[word + 7 - place] = u8::try_from(value).unwrap(),
                Depth::Twelve => {
                    let bytes = u16::try_from(value).unwrap().to_be_bytes();
                    stored[word + 6 - 2 * place..][..2].copy_from_slice(&bytes);
                }
                Depth::TwentyFour => {
                    for (plane, half) in [value >> 12, value & 0xFFF].into_iter().enumerate() {
                        let bytes = u16::try_from(half).unwrap().to_be_bytes();
                        let at = plane * plane_len + word + 6 - 2 * place;
                        stored[at..][..2].copy_from_slice(&bytes);
                    }
                }
            }
        }
    }
    stored
}

/// The only pixel that is not 0 when just `stored[byte]` is `value`, and its value.
fn only_pixel(layout: &RawLayout, len: usize, byte: usize, value: u8) -> (usize, u32) {
    let mut stored = vec![0; len];
    stored[byte] = value;
    let frame = whole(layout, &stored);
    let set: Vec<usize> = (0..frame.len()).filter(|&i| frame[i] != 0).collect();
    assert_eq!(set.len(), 1, "byte {byte} = {value:#x} sets pixels {set:?}");
    (set[0], frame[set[0]])
}

#[test]
fn one_bit_vectors() {
    let layout = layout(Depth::One, 256, 256, Chips::One);
    let vectors = [(7, 0x01, 0), (7, 0x80, 7), (6, 0x01, 8), (0, 0x80, 63), (15, 0x01, 64)];
    for (byte, value, pixel) in vectors {
        assert_eq!(only_pixel(&layout, 8192, byte, value), (pixel, 1));
    }
}

#[test]
fn six_bit_vectors() {
    let layout = layout(Depth::Six, 256, 256, Chips::One);
    for (byte, pixel) in [(7, 0), (0, 7), (15, 8)] {
        assert_eq!(only_pixel(&layout, 65536, byte, 63), (pixel, 63));
    }
}

#[test]
fn twelve_bit_vectors() {
    let layout = layout(Depth::Twelve, 256, 256, Chips::One);
    for (high, pixel) in [(6, 0), (0, 3), (14, 4)] {
        assert_eq!(only_pixel(&layout, 131_072, high, 0x0F), (pixel, 0xF00));
        assert_eq!(only_pixel(&layout, 131_072, high + 1, 0xFF), (pixel, 0xFF));
    }
}

#[test]
fn twenty_four_bits_are_two_planes() {
    let layout = layout(Depth::TwentyFour, 256, 256, Chips::One);
    let mut stored = vec![0; 262_144];
    for (plane, value) in [(0, 1u16), (1, 5)] {
        for pixel in stored[plane * 131_072..][..131_072].chunks_exact_mut(2) {
            pixel.copy_from_slice(&value.to_be_bytes());
        }
    }
    assert_eq!(whole(&layout, &stored), [4101; 65536]);
}

#[test]
fn quad_vectors() {
    let layout = layout(Depth::Six, 256, 256, Chips::Quad { gap: 0 });
    let vectors = [
        ((0, 0), (511, 504)),
        ((0, 7), (511, 511)),
        ((0, 256), (511, 248)),
        ((0, 512), (0, 263)),
        ((0, 519), (0, 256)),
        ((0, 768), (0, 7)),
        ((255, 1023), (255, 248)),
        ((10, 8), (501, 496)),
    ];
    for ((raw_row, raw_byte), (y, x)) in vectors {
        let pixel = only_pixel(&layout, 512 * 512, raw_row * 1024 + raw_byte, 9);
        assert_eq!(pixel, (y * 512 + x, 9), "raw row {raw_row}, byte {raw_byte}");
    }
}

#[test]
fn the_gap_is_empty_and_shifts_what_follows() {
    let plain = layout(Depth::Twelve, 256, 32, Chips::Quad { gap: 0 });
    let wide = layout(Depth::Twelve, 256, 32, Chips::Quad { gap: 2 });
    let frame: Vec<u32> = (0..64 * 512).map(|i| i % 4095 + 1).collect();
    let stored = encode(&plain, &frame);
    let (without, with) = (whole(&plain, &stored), whole(&wide, &stored));
    assert_eq!(without, frame);
    for y in 0..66 {
        for x in 0..514 {
            let expected = match (y, x) {
                (32 | 33, _) | (_, 256 | 257) => 0,
                _ => {
                    without
                        [(y - if y < 32 { 0 } else { 2 }) * 512 + x - if x < 256 { 0 } else { 2 }]
                }
            };
            assert_eq!(with[y * 514 + x], expected, "({y}, {x})");
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let layout = layout(Depth::Six, 16, 4, Chips::Quad { gap: 0 });
    let scheme = TilingScheme::try_new(&[8, 32], &[8, 32], 1).unwrap();
    let sig = &scheme.slices()[0];
    let decoder = RawDecoder::try_new(layout, &[8, 32]).unwrap();
    let stored = vec![0; 8 * 32];
    assert!(decoder.decode(&stored, sig, &mut [0; 8 * 32]).is_ok());
    assert!(decoder.decode(&stored[1..], sig, &mut [0; 8 * 32]).is_err());
    assert!(decoder.decode(&[], sig, &mut [0; 8 * 32]).is_err());
    assert!(decoder.decode(&stored, sig, &mut [0; 8 * 32 - 1]).is_err());
    assert!(decoder.decode(&stored, sig, &mut [0; 8 * 32 + 1]).is_err());
    assert!(RawDecoder::try_new(layout, &[9, 32]).is_err());
}

#[test]
fn runs_of_words_are_pieces_of_whole_rows() {
    for (depth, words) in [(Depth::One, 3), (Depth::Six, 5), (Depth::Twelve, 9)] {
        let layout = layout(depth, words * depth.pixels_per_word(), 7, Chips::One);
        let shape = layout.sig_shape();
        let decoder = RawDecoder::try_new(layout, &shape).unwrap();
        let stored: Vec<u8> =
            (0..decoder.stored_len()).map(|i| (i * i / 3 % 256) as u8 & 0x0F).collect();
        let expected = whole(&layout, &stored);
        let scheme = TilingScheme::try_new(&shape, &[2, shape[1]], 1).unwrap();
        assert!(scheme.slices().iter().all(|sig| decoder.by_pieces(sig).is_some()));
        let halves = TilingScheme::try_new(&shape, &[1, shape[1].div_ceil(2)], 1).unwrap();
        assert!(halves.slices().iter().all(|sig| decoder.by_pieces(sig).is_none()));
        let pixel_bytes = depth.dtype().size();
        for simd in Simd::all() {
            let decoder = RawDecoder { simd, ..decoder.clone() };
            let unit = decoder.unit();
            for units in [1, 2, 7, 7 * words] {
                let mut pixels = Vec::new();
                for piece in stored.chunks(units * unit.stored) {
                    let mut out = vec![0xAAAAu16; piece.len() / 8 * unit.decoded / 2];
                    decoder.decode_piece(piece, bytemuck::cast_slice_mut(&mut out)).unwrap();
                    let bytes: &[u8] = bytemuck::cast_slice(&out);
                    pixels.extend(bytes.chunks(pixel_bytes).map(|pixel| match *pixel {
                        [only] => u32::from(only),
                        [first, second] => u32::from(u16::from_ne_bytes([first, second])),
                        _ => unreachable!(),
                    }));
                }
                assert_eq!(pixels, expected, "{depth:?}, {units} words, {simd:?}");
            }
            assert!(decoder.decode_piece(&stored[..8], &mut vec![0; unit.decoded - 1]).is_err());
            assert!(decoder.decode_piece(&stored[..7], &mut vec![0; unit.decoded]).is_err());
        }
    }
    // Two images, and chips side by side.
    for layout in [
        layout(Depth::TwentyFour, 8, 4, Chips::One),
        layout(Depth::Six, 16, 4, Chips::Quad { gap: 0 }),
    ] {
        let shape = layout.sig_shape();
        let decoder = RawDecoder::try_new(layout, &shape).unwrap();
        let scheme = TilingScheme::try_new(&shape, &shape, 1).unwrap();
        assert!(decoder.by_pieces(&scheme.slices()[0]).is_none());
    }
}

#[test]
fn only_the_rows_that_are_needed_are_asked_for() {
    let scheme = TilingScheme::try_new(&[514, 514], &[64, 514], 1).unwrap();
    let quad_layout = layout(Depth::Six, 256, 256, Chips::Quad { gap: 2 });
    let decoder = RawDecoder::try_new(quad_layout, &[514, 514]).unwrap();
    let quad: Vec<_> = scheme.slices().iter().map(|sig| decoder.stored_range(sig)).collect();
    assert_eq!(quad[0], 0..64 * 1024);
    // Rows 256 and 257 are gap, row 258 is raw row 255 upside down.
    assert_eq!(quad[4], (256 - 62) * 1024..256 * 1024);
    assert_eq!(quad[8], 0..2 * 1024);
    let single = TilingScheme::try_new(&[256, 256], &[64, 256], 1).unwrap();
    let layout = layout(Depth::TwentyFour, 256, 256, Chips::One);
    let decoder = RawDecoder::try_new(layout, &[256, 256]).unwrap();
    let plane = 256 * 256 * 2;
    assert_eq!(decoder.stored_range(&single.slices()[1]), 64 * 512..plane + 128 * 512);
}

prop_compose! {
    fn any_layout()(
        depth in prop::sample::select(&DEPTHS[..]),
        words in 1usize..4,
        rows in 1usize..6,
        gap in prop::option::of(prop::sample::select(vec![0usize, 2])),
    ) -> RawLayout {
        // 24 bits exist for one chip only.
        let chips = match gap {
            Some(gap) if depth != Depth::TwentyFour => Chips::Quad { gap },
            _ => Chips::One,
        };
        layout(depth, words * depth.pixels_per_word(), rows, chips)
    }
}

proptest! {
    #[test]
    fn decoding_inverts_encoding_in_any_slice(
        layout in any_layout(),
        tile in (1usize..14, 1usize..600),
        seed in any::<u32>(),
    ) {
        let [rows, columns] = layout.sig_shape();
        let mut state = seed | 1;
        let limit = 1u32 << layout.depth.bits();
        let frame: Vec<u32> = (0..rows * columns)
            .map(|i| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let in_gap = stored_at(&layout, i / columns, i % columns).is_none();
                if in_gap { 0 } else { (state >> 8) % limit }
            })
            .collect();
        let stored = encode(&layout, &frame);
        prop_assert_eq!(&whole(&layout, &stored), &frame);
        let scheme = TilingScheme::try_new(&[rows, columns], &[tile.0, tile.1], 1).unwrap();
        for sig in scheme.slices() {
            let expected: Vec<u32> =
                sig.runs(&[rows, columns]).flat_map(|run| frame[run].to_vec()).collect();
            prop_assert_eq!(slice(&layout, &stored, sig), expected);
        }
        // The same cells in another shape.
        let flat = [rows * columns];
        let scheme = TilingScheme::try_new(&flat, &[tile.1], 1).unwrap();
        for sig in scheme.slices() {
            let expected = &frame[sig.linear().unwrap()];
            prop_assert_eq!(slice_of(&layout, &flat, &stored, sig), expected);
        }
    }
}

//! Filters against what they are made of, and against damage.

use super::*;

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| ((i * i) >> 5) as u8 ^ (i as u8)).collect()
}

/// Bytes in planes, one element after the other.
fn shuffled(data: &[u8], size: usize) -> Vec<u8> {
    let n = data.len() / size;
    let mut out = vec![];
    for byte in 0..size {
        out.extend((0..n).map(|i| data[i * size + byte]));
    }
    out.extend(&data[n * size..]);
    out
}

/// Bits in planes, one at a time.
fn bitshuffled(data: &[u8], size: usize) -> Vec<u8> {
    let n = data.len() / size;
    let mut out = vec![0; data.len()];
    for i in 0..n {
        for bit in 0..8 * size {
            if data[i * size + bit / 8] >> (bit % 8) & 1 == 1 {
                out[bit * (n / 8) + i / 8] |= 1 << (i % 8);
            }
        }
    }
    out
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let n = compressor.zlib_compress(data, &mut out).unwrap();
    out.truncate(n);
    out
}

fn summed(data: &[u8]) -> Vec<u8> {
    [data, &hdf5_reader::checksum::fletcher32(data).to_le_bytes()].concat()
}

fn decode(filters: Vec<Filter>, mask: u32, stored: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; len];
    Pipeline(filters).decode(mask, stored, &mut out, &mut Buffers::new())?;
    Ok(out)
}

#[test]
fn every_instruction_set_unshuffles_alike() {
    for simd in Simd::all() {
        for size in [1, 2, 3, 4, 8, 16] {
            for n in [0, 1, 63, 64, 65, 200, 1024] {
                let data = pattern(n * size);
                let mut out = vec![0; data.len()];
                shuffle::unshuffle(simd, &shuffled(&data, size), size, &mut out);
                assert_eq!(out, data, "{simd:?} {size} {n}");
            }
            for n in [8, 64, 248, 256, 264, 4096] {
                let data = pattern(n * size);
                let (mut out, mut planes) = (vec![0; data.len()], vec![0; data.len()]);
                let bits = bitshuffled(&data, size);
                bitshuffle::unshuffle_bits(simd, &bits, size, &mut planes, &mut out);
                assert_eq!(out, data, "{simd:?} {size} {n}");
            }
        }
    }
}

#[test]
fn filters_are_undone_in_reverse() {
    let data = pattern(1003);
    let shuffle = Filter::Shuffle { size: 4 };
    let stored = summed(&deflated(&shuffled(&data, 4)));
    let filters = vec![shuffle.clone(), Filter::Deflate, Filter::Fletcher32];
    assert_eq!(decode(filters.clone(), 0, &stored, 1003).unwrap(), data);
    // Left out: the first, and all of them.
    assert_eq!(decode(filters.clone(), 1, &summed(&deflated(&data)), 1003).unwrap(), data);
    assert_eq!(decode(filters, 7, &data, 1003).unwrap(), data);
    // The checksum first: it is shuffled and compressed with the data.
    let filters = vec![Filter::Fletcher32, shuffle, Filter::Deflate];
    let stored = deflated(&shuffled(&summed(&data), 4));
    assert_eq!(decode(filters, 0, &stored, 1003).unwrap(), data);
}

#[test]
fn whatever_decodes_to_another_size_is_refused() {
    let data = pattern(1000);
    for len in [0, 999, 1001, 4000] {
        for (filter, stored) in [
            (Filter::Deflate, deflated(&data)),
            (Filter::Shuffle { size: 2 }, data.clone()),
            (Filter::Zstd, zstd::bulk::compress(&data, 1).unwrap()),
            (Filter::Fletcher32, summed(&data)),
        ] {
            assert!(decode(vec![filter.clone()], 0, &stored, len).is_err(), "{filter} {len}");
        }
    }
    let twice = vec![Filter::Deflate, Filter::Deflate];
    let error = decode(twice, 0, &deflated(&deflated(&data)), 1000).unwrap_err();
    assert_eq!(error.kind(), framefold_core::ErrorKind::Unsupported);
}

#[test]
fn a_flipped_bit_does_not_pass_a_checksum() {
    let data = pattern(100);
    for (filter, sum) in [
        (Filter::Fletcher32, hdf5_reader::checksum::fletcher32(&data)),
        (Filter::Crc32c, crc32c::crc32c(&data)),
    ] {
        let mut stored = [&data[..], &sum.to_le_bytes()].concat();
        assert_eq!(decode(vec![filter.clone()], 0, &stored, 100).unwrap(), data);
        stored[50] ^= 4;
        assert!(decode(vec![filter], 0, &stored, 100).is_err());
    }
    // The check value of the polynomial.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
}

#[test]
fn crc_32c_is_that_of_its_definition_at_every_length_and_place() {
    let by_definition = |data: &[u8]| {
        !data.iter().fold(!0u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 }
            })
        })
    };
    let data = pattern(40_000);
    // Long ones are summed in several streams at a time, and those are then joined.
    for len in (0..300).chain([767, 768, 8191, 8192, 24_575, 24_576, 39_990]) {
        for start in [0, 1, 7] {
            let part = &data[start..start + len];
            assert_eq!(crc32c::crc32c(part), by_definition(part), "{len} bytes from {start}");
        }
    }
}

#[test]
fn lzf_and_blosclz_repeat_what_overlaps() {
    // Three literals, then nine bytes from two bytes back.
    let mut out = [0; 12];
    lzf::decode(&[2, b'a', b'b', b'c', 7 << 5, 0, 1], &mut out).unwrap();
    assert_eq!(&out, b"abcbcbcbcbcb");
    blosclz::decode(&[2, b'a', b'b', b'c', 7 << 5, 0, 1], &mut out).unwrap();
    assert_eq!(&out, b"abcbcbcbcbcb");
    assert!(lzf::decode(&[2, b'a', b'b', b'c', 7 << 5, 0, 9], &mut out).is_err());
    assert!(lzf::decode(&[2, b'a', b'b', b'c', 7 << 5, 9, 1], &mut out).is_err());
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let shuffle = |inner| Filter::Bitshuffle { size: 2, block: 0, inner };
    for filter in [
        Filter::Deflate,
        Filter::Gzip,
        Filter::Lzf,
        Filter::Lz4,
        Filter::Zstd,
        Filter::Blosc,
        Filter::Fletcher32,
        shuffle(Inner::Nothing),
        shuffle(Inner::Lz4),
        shuffle(Inner::Zstd),
    ] {
        for round in 0..2000 {
            let mut stored: Vec<u8> = (0..round % 97).map(|_| byte()).collect();
            // Past the checks of sizes, as often as not.
            if round % 2 == 0 && stored.len() > 16 {
                match filter {
                    Filter::Lz4 | Filter::Bitshuffle { .. } => {
                        stored[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 200, 0, 0, 0, 64]);
                        stored[12..15].fill(0);
                    }
                    Filter::Blosc => {
                        stored[0] = 2;
                        stored[2] &= !2;
                        stored[4..12].copy_from_slice(&[200, 0, 0, 0, 100, 0, 0, 0]);
                    }
                    _ => {}
                }
            }
            // Wrong bytes may decode to something; all that counts is that they come back.
            let _ = decode(vec![filter.clone()], 0, &stored, 200);
        }
    }
}

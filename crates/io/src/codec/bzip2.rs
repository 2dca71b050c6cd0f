//! bzip2: streams of blocks, one after the other.

use super::{all_of, damaged};
use bzip2::bufread::BzDecoder;
use framefold_core::Result;
use std::io::Read;

/// To begin a stream takes as long as to decode thousands of bytes. Programs begin one for each 100 kB at
/// the most, files that were made to take for ever one for each byte, or for none.
const BYTES_OF_A_STREAM: usize = 1 << 12;
/// So many are decoded whatever the size.
const FEW_STREAMS: usize = 16;

/// Decodes to just as many bytes as `out` has. A block takes some megabytes, whatever it says.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let (mut rest, mut done) = (stored, 0);
    let most = FEW_STREAMS + out.len() / BYTES_OF_A_STREAM;
    for _ in 0..most {
        if rest.is_empty() {
            break;
        }
        let mut decoder = BzDecoder::new(rest);
        done = go_on("bzip2", &mut decoder, out, done)?;
        rest = decoder.into_inner();
    }
    if !rest.is_empty() {
        return Err(damaged("bzip2", &format!("it has more than {most} streams")));
    }
    all_of("bzip2", done, out.len())
}

/// Reads just as many bytes as `out` has, after which there must be none.
pub(super) fn all_from(what: &str, decoder: impl Read, out: &mut [u8]) -> Result<()> {
    let done = go_on(what, decoder, out, 0)?;
    all_of(what, done, out.len())
}

/// Reads to the end, behind what is `done`, at most as many bytes as `out` has; how many there are then.
fn go_on(what: &str, mut decoder: impl Read, out: &mut [u8], mut done: usize) -> Result<usize> {
    let mut more = [0];
    loop {
        let rest = out.get_mut(done..).filter(|rest| !rest.is_empty());
        let is_end = rest.is_none();
        match decoder.read(rest.unwrap_or(&mut more)) {
            Ok(0) => return Ok(done),
            Ok(_) if is_end => {
                return Err(damaged(
                    what,
                    &format!("there is more than the {done} bytes that the chunk's shape needs"),
                ));
            }
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(what, &error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bzip2::Compression;
    use bzip2::read::BzEncoder;

    fn stored(bytes: &[u8]) -> Vec<u8> {
        let mut stored = vec![];
        BzEncoder::new(bytes, Compression::best()).read_to_end(&mut stored).unwrap();
        stored
    }

    #[test]
    fn streams_follow_each_other() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i * i / 77) as u8).collect();
        let whole = [stored(&bytes[..700]), stored(&bytes[700..])].concat();
        let mut out = vec![0; bytes.len()];
        decode(&whole, &mut out).unwrap();
        assert_eq!(out, bytes);
        assert!(decode(&whole, &mut vec![0; 1999]).is_err());
        assert!(decode(&whole, &mut vec![0; 2001]).is_err());
    }

    #[test]
    fn there_are_no_more_streams_than_programs_make() {
        let stream = |byte: Option<u8>| stored(byte.as_slice());
        let of_one = stream(Some(7)).repeat(FEW_STREAMS);
        let mut out = vec![0; FEW_STREAMS];
        decode(&of_one, &mut out).unwrap();
        assert_eq!(out, vec![7; FEW_STREAMS]);
        let mut out = vec![0; FEW_STREAMS + 1];
        for last in [None, Some(7)] {
            let error = decode(&[of_one.clone(), stream(last)].concat(), &mut out).unwrap_err();
            assert!(error.message().contains("it has more than 16 streams"), "{error}");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let bytes: Vec<u8> = (0..500u32).map(|i| (i * i / 77) as u8).collect();
        let whole = stored(&bytes);
        let mut out = vec![0; bytes.len()];
        for len in 0..whole.len() {
            assert!(decode(&whole[..len], &mut out).is_err(), "cut at {len}");
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            // Bits at the very end, and the size that blocks may have, mean nothing.
            if decode(&flipped, &mut out).is_ok() {
                assert_eq!(out, bytes, "flipped at {at}");
            }
        }
    }
}

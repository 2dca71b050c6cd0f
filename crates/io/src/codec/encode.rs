//! Encoding of chunks: the counterpart of a few of the decoders, for what framefold writes.

use super::encode_tools::EncodeTools;
use super::{bitshuffle, blosc, shuffle};
use framefold_core::{Error, Result, memory};

/// What is done to the pixels of a chunk, each step to what the one before it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first bytes of all elements of so many bytes, then the second ones, and so on.
    Shuffle(usize),
    /// A zlib stream.
    Deflate(i32),
    /// A gzip stream.
    Gzip(i32),
    /// A Zstandard frame.
    Zstd(i32),
    /// Bits of elements of so many bytes in planes, and blocks of LZ4.
    Bitshuffle(usize),
    /// A Blosc frame, of shuffled bits.
    Blosc {
        /// Bytes of an element.
        size: usize,
        /// The level of Zstandard, or LZ4.
        zstd: Option<i32>,
    },
}

/// Encodes chunk after chunk.
pub(crate) struct Encoder {
    steps: Vec<Step>,
    buffers: [Vec<u8>; 2],
    tools: EncodeTools,
}

impl Encoder {
    /// # Errors
    /// `InvalidArgument` if a compressor has no such level; `Io` if it cannot be set up.
    pub(crate) fn try_new(steps: &[Step]) -> Result<Self> {
        let mut tools = EncodeTools::new();
        for step in steps {
            match *step {
                Step::Deflate(level) | Step::Gzip(level) => {
                    let level = libdeflater::CompressionLvl::new(level)
                        .map_err(|_| Error::invalid(format!("gzip has no level {level}")))?;
                    tools.deflate = Some(libdeflater::Compressor::new(level));
                }
                Step::Zstd(level) | Step::Blosc { zstd: Some(level), .. } => {
                    let compressor = zstd::bulk::Compressor::new(level);
                    tools.zstd =
                        Some(compressor.map_err(|error| Error::io("set up Zstandard", error))?);
                }
                _ => {}
            }
        }
        Ok(Encoder { steps: steps.to_vec(), buffers: [Vec::new(), Vec::new()], tools })
    }

    /// What is to be stored of a chunk.
    ///
    /// # Errors
    /// `Io` if a compressor fails.
    pub(crate) fn encode<'e>(&'e mut self, chunk: &'e [u8]) -> Result<&'e [u8]> {
        let [a, b] = &mut self.buffers;
        let (mut from, mut to) = (a, b);
        for (i, step) in self.steps.iter().enumerate() {
            let input: &[u8] = if i == 0 { chunk } else { from };
            to.clear();
            match *step {
                Step::Shuffle(size) => {
                    memory::resize(to, input.len(), 0)?;
                    shuffle::shuffle(self.tools.simd, input, size, to);
                }
                Step::Deflate(_) | Step::Gzip(_) => {
                    let gzip = matches!(step, Step::Gzip(_));
                    self.tools.deflate(input, gzip, to)?;
                }
                Step::Zstd(_) => self.tools.zstd(input, to)?,
                Step::Bitshuffle(size) => bitshuffle::encode(input, size, to, &mut self.tools)?,
                Step::Blosc { size, zstd } => {
                    blosc::encode(input, size, zstd.is_some(), to, &mut self.tools)?;
                }
            }
            std::mem::swap(&mut from, &mut to);
        }
        Ok(if self.steps.is_empty() { chunk } else { from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Buffers, Filter, Inner, Pipeline};
    use proptest::prelude::*;

    fn pipeline(step: Step, size: usize) -> Vec<Filter> {
        vec![match step {
            Step::Shuffle(size) => Filter::Shuffle { size },
            Step::Deflate(_) => Filter::Deflate,
            Step::Gzip(_) => Filter::Gzip,
            Step::Zstd(_) => Filter::Zstd,
            Step::Bitshuffle(_) => Filter::Bitshuffle { size, block: 0, inner: Inner::Lz4 },
            Step::Blosc { .. } => Filter::Blosc,
        }]
    }

    fn round_trip(size: usize, bytes: &[u8]) {
        let all = [
            vec![],
            vec![Step::Shuffle(size), Step::Deflate(1)],
            vec![Step::Gzip(4)],
            vec![Step::Shuffle(size), Step::Zstd(1)],
            vec![Step::Bitshuffle(size)],
            vec![Step::Blosc { size, zstd: Some(1) }],
            vec![Step::Blosc { size, zstd: None }],
        ];
        for steps in all {
            let mut encoder = Encoder::try_new(&steps).unwrap();
            let filters = steps.iter().flat_map(|step| pipeline(*step, size)).collect();
            for _ in 0..2 {
                let mut decoded = vec![0; bytes.len()];
                let stored = encoder.encode(bytes).unwrap();
                let pipeline = Pipeline(Clone::clone(&filters));
                pipeline.decode(0, stored, &mut decoded, &mut Buffers::new()).unwrap();
                assert!(decoded == bytes, "{steps:?}, {} bytes", bytes.len());
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(
            size in prop::sample::select(vec![1usize, 2, 4, 8, 16]),
            n in prop_oneof![1usize..300, 10_000usize..200_000],
            seed in 1u64..1000,
            range in 1u64..300,
        ) {
            let mut state = seed;
            let cell = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u128::from((state >> 33) % range).to_le_bytes()[..size].to_vec()
            };
            let bytes: Vec<u8> = (0..n / size + 1).flat_map(cell).collect();
            round_trip(size, &bytes);
        }
    }

    #[test]
    fn noise_does_not_grow_much() {
        let mut state = 1u64;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[5]
        };
        let bytes: Vec<u8> = (0..300_000).map(noise).collect();
        round_trip(2, &bytes);
        for steps in [Step::Bitshuffle(2), Step::Blosc { size: 2, zstd: Some(1) }] {
            let mut encoder = Encoder::try_new(&[steps]).unwrap();
            assert!(encoder.encode(&bytes).unwrap().len() < bytes.len() + bytes.len() / 50);
        }
    }
}

//! How fast this machine can read a mapped file: the limit that `bench/` holds all else against.
//!
//! Threads add up a share of the file each, as 64-bit words: one vector addition per load, so that
//! nothing but the memory decides. Commands come on standard input, one a line, and each is
//! answered by a line:
//!
//! | command | answer |
//! |---|---|
//! | `open BYTES PATH` | how many bytes will be read: so many, or all for 0 |
//! | `warm` | seconds, and the wrapping sum, for a mapping that is kept |
//! | `fresh` | the same for a mapping made for this, and removed, within the time |

use framefold_simd::{Level, Simd, run};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{BufRead, Write};
use std::num::NonZero;
use std::thread;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One vector of 512 bits, and so one line of the cache.
const LANES: usize = 8;

fn main() -> Result<()> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut opened: Option<(File, usize, Mmap)> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match (line.split_once(' '), &opened) {
            (Some(("open", what)), _) => {
                let (bytes, path) = what.split_once(' ').ok_or("expected open BYTES PATH")?;
                let file = File::open(path)?;
                let whole = usize::try_from(file.metadata()?.len())?;
                let len = Some(bytes.parse()?).filter(|&len| len > 0).unwrap_or(whole).min(whole);
                let map = map(&file, len)?;
                opened = Some((file, len, map));
                len.to_string()
            }
            (None, Some((_, _, kept))) if line == "warm" => timed(|| Ok(sum(kept, threads)))?,
            (None, Some((file, len, _))) if line == "fresh" => {
                timed(|| Ok(sum(&map(file, *len)?, threads)))?
            }
            _ => {
                return Err(format!(
                    "found '{line}', expected open BYTES PATH, then warm or fresh"
                )
                .into());
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<u64>) -> Result<String> {
    let start = Instant::now();
    let sum = work()?;
    Ok(format!("{} {sum}", start.elapsed().as_secs_f64()))
}

fn map(file: &File, len: usize) -> Result<Mmap> {
    // SAFETY: read-only, and any bytes are valid; the benchmark does not change files it reads.
    Ok(unsafe { MmapOptions::new().len(len).map(file)? })
}

/// The wrapping sum of all whole words.
fn sum(bytes: &[u8], threads: usize) -> u64 {
    // The system gives maps at page boundaries, so nothing precedes the words.
    let (_, words, _) = bytemuck::pod_align_to::<u8, u64>(bytes);
    let share = words.len().div_ceil(threads).max(1);
    let simd = streaming();
    thread::scope(|scope| {
        let parts: Vec<_> =
            words.chunks(share).map(|part| scope.spawn(|| run!(simd, sum_words(part)))).collect();
        // A thread that only adds cannot panic.
        parts.into_iter().filter_map(|part| part.join().ok()).fold(0, u64::wrapping_add)
    })
}

/// Of what the processor has, the instructions that read fastest: memory is kept busy best by many
/// loads of 256 bits; those of 512 bits were slower on processors that have both.
fn streaming() -> Simd {
    let not_wider = |simd: &Simd| simd.level() <= Level::Avx2;
    Simd::all().into_iter().rev().find(not_wider).unwrap_or_else(Simd::plain)
}

/// Reads four places in turns: the processor fetches ahead in each of them on its own.
#[inline(always)]
fn sum_words(words: &[u64]) -> u64 {
    let share = words.len() / 4;
    let (a, rest) = words.split_at(share);
    let (b, rest) = rest.split_at(share);
    let (c, d) = rest.split_at(share);
    let [(a, a_rest), (b, b_rest), (c, c_rest), (d, d_rest)] =
        [a, b, c, d].map(|stream| stream.as_chunks::<LANES>());
    let n_blocks = a.len().min(d.len());
    let mut sums = [0_u64; 4 * LANES];
    for block in 0..n_blocks {
        for lane in 0..LANES {
            sums[lane] = sums[lane].wrapping_add(a[block][lane]);
            sums[LANES + lane] = sums[LANES + lane].wrapping_add(b[block][lane]);
            sums[2 * LANES + lane] = sums[2 * LANES + lane].wrapping_add(c[block][lane]);
            sums[3 * LANES + lane] = sums[3 * LANES + lane].wrapping_add(d[block][lane]);
        }
    }
    let last = d[n_blocks..].as_flattened();
    let rests = [a_rest, b_rest, c_rest, last, d_rest].into_iter().flatten();
    sums.iter().chain(rests).fold(0, |sum, word| sum.wrapping_add(*word))
}

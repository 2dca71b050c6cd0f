//! Sums of cells of pixels, frame by frame: what a pass in the background makes cubes of.

use super::binning::Binning;
use super::cube::Cube;
use super::detect::typed;
use super::pixel::{Pixel, Total, add_each, dispatch_real, refuse_complex};
use framefold::core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, CsrTile, DType, JobMeta, Merger,
    Method, NativeArray, Partial, Partition, Requirements, RunMeta, SourceInfo, Tile, TilePosition,
    Udf, memory, stray_column,
};
use framefold::{Error, ErrorKind, Result};
use framefold_simd::{Simd, run};
use std::sync::{Arc, Mutex, PoisonError};

/// Fills cubes. It has one result buffer, the number of frames.
pub(crate) struct Gather {
    /// Those that are filled; one that takes too much memory is dropped.
    pub(crate) cubes: Arc<Mutex<Vec<Option<Cube>>>>,
    /// The binnings of these, in order.
    pub(crate) binnings: Vec<Arc<Layout>>,
}

/// A binning as loops want it.
pub(crate) struct Layout {
    binning: Binning,
    columns: usize,
    /// For rings: pixels by ring, and where each ring begins.
    order: Vec<u32>,
    starts: Vec<usize>,
}

impl Layout {
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn try_new(binning: &Binning, columns: usize) -> Result<Self> {
        let mut starts = vec![0];
        let mut order = Vec::new();
        if binning.block.is_none() {
            for &size in &binning.sizes {
                starts.push(starts.last().copied().unwrap_or(0) + size as usize);
            }
            let mut next = starts.clone();
            order = memory::zeros(binning.of_pixel.len())?;
            for (pixel, &cell) in (0u32..).zip(&binning.of_pixel) {
                let place = &mut next[cell as usize];
                order[*place] = pixel;
                *place += 1;
            }
        }
        Ok(Layout { binning: binning.clone(), columns, order, starts })
    }

    fn n_cells(&self) -> usize {
        self.binning.n_cells()
    }

    /// Adds the pixels of a frame to the sums of their cells.
    #[inline(always)]
    fn add<T: Pixel>(&self, frame: &[T], line: &mut [T::Block], sums: &mut [T::Total]) {
        let Some([by, bx]) = self.binning.block else {
            let rings = self.starts.windows(2).zip(sums);
            for (ring, sum) in rings {
                *sum += gathered(frame, &self.order[ring[0]..ring[1]]);
            }
            return;
        };
        let line = &mut line[..self.columns];
        let wide = self.columns.div_ceil(bx);
        for (rows, sums) in frame.chunks(by * self.columns).zip(sums.chunks_mut(wide)) {
            line.fill(T::Block::default());
            rows.chunks_exact(self.columns).for_each(|row| add_each(line, row));
            let (wholes, rest) = (line.chunks_exact(bx), line.len() / bx);
            let left = wholes.remainder();
            for (sum, cells) in sums.iter_mut().zip(wholes) {
                // Each cell has up to `by` pixels.
                for part in cells.chunks((T::BLOCK / by).max(1)) {
                    let mut block = T::Block::default();
                    part.iter().for_each(|&cell| block += cell);
                    *sum += T::total(block);
                }
            }
            if let Some(sum) = sums.get_mut(rest) {
                left.iter().for_each(|&cell| *sum += T::total(cell));
            }
        }
    }
}

/// The sum of some pixels.
#[inline(always)]
fn gathered<T: Pixel>(frame: &[T], pixels: &[u32]) -> T::Total {
    let mut total = T::Total::default();
    for part in pixels.chunks(T::BLOCK) {
        let (groups, rest) = part.as_chunks::<4>();
        let mut lanes = [T::Block::default(); 4];
        for group in groups {
            for (lane, &pixel) in lanes.iter_mut().zip(group) {
                *lane += frame[pixel as usize].block();
            }
        }
        lanes.into_iter().for_each(|lane| total += T::total(lane));
        rest.iter().for_each(|&pixel| total += T::total(frame[pixel as usize].block()));
    }
    total
}

const N_FRAMES: &str = "n_frames";

impl Udf for Gather {
    fn name(&self) -> &str {
        "gather"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        if source.dtype.dtype.is_complex() {
            return Err(refuse_complex(source.dtype.dtype));
        }
        Ok(Requirements {
            method: Method::Frame,
            formats: vec![ArrayFormat::Dense, ArrayFormat::Csr],
            ..Requirements::native_tiles()
        })
    }

    fn buffers(&self, _: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new(N_FRAMES, BufferKind::Single, DType::I64)])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let n_frames = partition.n_frames();
        dispatch_real!(run.job.input_dtype, T => {
            let zeros = |layout: &Arc<Layout>| memory::filled(
                <T as Pixel>::Total::default(),
                layout.n_cells().saturating_mul(n_frames),
            );
            let sums = self.binnings.iter().map(zeros).collect::<Result<_>>()?;
            let columns = self.binnings.first().map_or(0, |layout| layout.columns);
            let line = memory::filled(Default::default(), columns)?;
            Ok(Box::new(Worker::<T> { layouts: self.binnings.clone(), sums, line, n_frames }))
        })
    }

    fn merger(&self, _: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(Box::new(Merged { cubes: self.cubes.clone(), n_frames: 0 }))
    }
}

struct Worker<T: Pixel> {
    layouts: Vec<Arc<Layout>>,
    /// For each binning, the cells of one frame after another.
    sums: Vec<Vec<T::Total>>,
    line: Vec<T::Block>,
    n_frames: usize,
}

impl<T: Pixel> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = typed::<T>(tile.frames())?;
        for (layout, sums) in self.layouts.iter().zip(&mut self.sums) {
            let of_frames = sums.chunks_exact_mut(layout.n_cells());
            let of_frames = of_frames.skip(tile.position.in_partition.start);
            let line = &mut self.line;
            run!(Simd::best(), {
                for (frame, sums) in frames.frames().zip(of_frames) {
                    layout.add(frame, line, sums);
                }
            });
        }
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let wrong = || Error::bug("a sparse tile of another dtype than was planned");
        let view = tile.view::<T>().ok_or_else(wrong)?;
        for (layout, sums) in self.layouts.iter().zip(&mut self.sums) {
            let of_frames = sums.chunks_exact_mut(layout.n_cells());
            let of_frames = of_frames.skip(position.in_partition.start);
            let of_pixel = &layout.binning.of_pixel;
            for ((columns, values), sums) in view.frames().zip(of_frames) {
                for (&column, &value) in columns.iter().zip(values) {
                    let cell = of_pixel.get(column as usize);
                    let cell = cell.ok_or_else(|| stray_column(column, of_pixel.len()))?;
                    sums[*cell as usize] += T::total(value.block());
                }
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let mut partial = Partial::new();
        for (number, (layout, mut sums)) in self.layouts.iter().zip(self.sums).enumerate() {
            if layout.binning.block.is_none() && !T::DTYPE.is_float() {
                for frame in sums.chunks_exact_mut(layout.n_cells()) {
                    let mut so_far = T::Total::default();
                    for sum in frame {
                        so_far += *sum;
                        *sum = so_far;
                    }
                }
            }
            let (n_cells, n_frames) = (layout.n_cells(), self.n_frames);
            let at = |i: usize| sums[i % n_frames * n_cells + i / n_frames];
            let all = (0..sums.len()).map(at);
            let array = match T::DTYPE.is_float() {
                true => {
                    NativeArray::try_new(&[sums.len()], memory::collected(all.map(Total::value))?)?
                }
                false => {
                    let mut wholes: Vec<i64> = memory::with_room(sums.len())?;
                    for sum in all {
                        let too_large = || Error::limit("the sum of a cell does not fit 64 bits");
                        wholes.push(sum.whole().ok_or_else(too_large)?);
                    }
                    NativeArray::try_new(&[sums.len()], wholes)?
                }
            };
            partial = partial.with(number.to_string(), array);
        }
        Ok(partial)
    }
}

/// The cubes, and how many frames are in them.
struct Merged {
    cubes: Arc<Mutex<Vec<Option<Cube>>>>,
    n_frames: usize,
}

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        let mut cubes = self.cubes.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, n) = (partition.frames.start, partition.n_frames());
        for (number, place) in cubes.iter_mut().enumerate() {
            let array = partial.take_native(&number.to_string())?;
            let Some(cube) = place else { continue };
            let put = match array.dtype() {
                DType::I64 => cube.put(first, n, array.as_slice()?),
                _ => {
                    cube.put_floats(first, n, array.as_slice()?);
                    Ok(())
                }
            };
            match put {
                // It goes on without.
                Err(error) if error.kind() == ErrorKind::Limit => *place = None,
                other => other?,
            }
        }
        self.n_frames += n;
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        let n = i64::try_from(self.n_frames).unwrap_or(i64::MAX);
        Ok(vec![NativeArray::try_new(&[1], vec![n])?.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_many_bright_pixels_do_not_wrap() {
        let edge = 512;
        let binning = Binning::blocks(edge, edge, [edge, edge]).unwrap();
        let layout = Layout::try_new(&binning, edge).unwrap();
        let (mut line, mut sums) = (vec![0; edge], [0]);
        layout.add(&vec![60_000u16; edge * edge], &mut line, &mut sums);
        assert_eq!(sums, [60_000 * 512 * 512]);
    }
}

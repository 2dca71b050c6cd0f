//! Neighbouring pixels added.

pub(super) mod sums;

use crate::cells::{cells_mut, len_bytes};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    AxisMap, DType, DenseTile, Error, FrameIndices, FrameKind, Result, Scratch, SigSlice, Stage,
    StagePart, TileFrames, cast_frames,
};
use std::fmt;
use std::sync::Arc;
use sums::{Groups, add_groups};

pub(super) const ROW: StageRow = StageRow {
    name: "bin",
    summary: "sums of neighbouring pixels, exact for integers",
    value: "N|NY,NX",
    options: &[StageOption { name: "mean", help: "true for means, not sums [default: false]" }],
    example: "2",
    make: |arguments, input| {
        let factors = arguments.lengths("frames", input.shape.len())?;
        let shape: Vec<usize> = input.shape.iter().zip(&factors).map(|(len, n)| len / n).collect();
        if shape.contains(&0) {
            return Err(arguments
                .refuse(format_args!("no bin is full in frames of shape {:?}", input.shape)));
        }
        let n_cells = factors.iter().product::<usize>();
        let mean = arguments.switch("mean")?;
        let sums = Sums::try_new(input.dtype, n_cells, mean).ok_or_else(|| {
            arguments.refuse(format_args!("sums of {n_cells} pixels may exceed every integer"))
        })?;
        let output = FrameKind { shape, dtype: sums.dtype };
        Ok(Arc::new(Bin { factors, sums, input, output }))
    },
};

/// How pixels are added, and what is made of their sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    /// How many pixels each sum has.
    n: usize,
    /// Whether means are made of them.
    pub(super) mean: bool,
    /// The dtype in which pixels are added.
    pub(super) added: DType,
    /// The dtype of what is made of the sums.
    pub(super) dtype: DType,
}

impl Sums {
    /// For sums of `n` pixels of a dtype; `None` if no integer can hold them.
    pub(super) fn try_new(pixels: DType, n: usize, mean: bool) -> Option<Self> {
        let (added, dtype) = if mean { for_means(pixels, n)? } else { for_sums(pixels, n)? };
        Some(Sums { n, mean, added, dtype })
    }

    /// How many counts of the result one count of the pixels becomes.
    pub(super) fn counts_of_one(&self) -> f64 {
        if self.mean { 1.0 / self.n as f64 } else { 1.0 }
    }

    /// Makes of sums, which are as they were added, what belongs into `out`.
    pub(super) fn finish(&self, sums: &[u8], means: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let n_sums = out.len() / self.dtype.size();
        let sums = TileFrames::from_bytes(self.added, sums, 1, n_sums, n_sums)?;
        if !self.mean {
            return cast_frames(sums, self.dtype, out);
        }
        let n = self.n as f64;
        let wide = if self.added.is_complex() { DType::C128 } else { DType::F64 };
        let means = means.prepare(len_bytes(n_sums, wide)?)?;
        cast_frames(sums, wide, means)?;
        // Both parts of a complex number.
        cells_mut::<f64>(means)?.iter_mut().for_each(|mean| *mean /= n);
        cast_frames(TileFrames::from_bytes(wide, means, 1, n_sums, n_sums)?, self.dtype, out)
    }
}

/// In which dtype `n` pixels are added, and which one their sum has: the smallest integer that can hold
/// any such sum, or the pixels' own float.
fn for_sums(dtype: DType, n: usize) -> Option<(DType, DType)> {
    use DType::{Bool, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64};
    let n = u128::try_from(n).ok()?;
    if matches!(dtype, U64 | I64) {
        return Some((dtype, dtype)); // each sum is checked
    }
    // The largest magnitude of a pixel.
    let (largest, fitting) = match dtype {
        Bool => (1, [U8, U16, U32, U64]),
        U8 => (u128::from(u8::MAX), [U8, U16, U32, U64]),
        U16 => (u128::from(u16::MAX), [U8, U16, U32, U64]),
        U32 => (u128::from(u32::MAX), [U8, U16, U32, U64]),
        I8 => (1 << 7, [I8, I16, I32, I64]),
        I16 => (1 << 15, [I8, I16, I32, I64]),
        I32 => (1 << 31, [I8, I16, I32, I64]),
        F16 | F32 => return Some((DType::F64, F32)),
        other if other.is_complex() => return Some((DType::C128, other)),
        other => return Some((DType::F64, other)),
    };
    let signed = u32::from(dtype.is_integer() && fitting[0] == I8);
    let holds = |fit: &DType| {
        let bits = u32::try_from(fit.size()).unwrap_or(0) * 8 - signed;
        let most = (1u128 << bits) - u128::from(1 - signed);
        largest * n <= most
    };
    let sum = fitting.into_iter().find(holds)?;
    let added = if sum.size() <= 4 { fitting[2] } else { fitting[3] };
    Some((added, sum))
}

/// The same for means: sums that are divided are exact, but for integers of 64 bits.
fn for_means(dtype: DType, n: usize) -> Option<(DType, DType)> {
    let mean = DType::promote(dtype, DType::F32);
    match dtype {
        DType::U64 | DType::I64 => Some((DType::F64, mean)),
        _ => for_sums(dtype, n).map(|(added, _)| (added, mean)),
    }
}

#[derive(Debug)]
struct Bin {
    factors: Vec<usize>,
    sums: Sums,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Bin {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn axes(&self) -> Option<Vec<AxisMap>> {
        let map = |&n: &usize| AxisMap { first: (n as f64 - 1.0) / 2.0, step: n as f64 };
        Some(self.factors.iter().map(map).collect())
    }

    fn counts_of_one(&self) -> Option<f64> {
        Some(self.sums.counts_of_one())
    }

    fn base_shape(&self, input: &[usize]) -> Vec<usize> {
        let bins = input.iter().zip(&self.factors).zip(&self.output.shape);
        // The least number of bins that ends where a unit of what is read does.
        bins.map(|((&base, &n), &len)| (base / gcd(base, n)).clamp(1, len)).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let rest: Vec<usize> =
            self.input.shape.iter().zip(&self.factors).map(|(len, n)| len % n).collect();
        match rest.iter().all(|&n| n == 0) {
            true => Vec::new(),
            false => vec![format!(
                "'{self}' leaves out the last {rest:?} pixels of the axes of frames of shape {:?}: \
                 they do not fill a bin",
                self.input.shape
            )],
        }
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let times = |all: &[usize]| all.iter().zip(&self.factors).map(|(at, n)| at * n).collect();
        let (origin, shape): (Vec<usize>, Vec<usize>) = (times(sig.origin()), times(sig.shape()));
        let read = SigSlice::try_within(origin, shape, &self.input.shape)?;
        let groups = Groups::new(read.shape(), &self.factors);
        let [wide, sums, means] = [(); 3].map(|()| Scratch::new());
        Ok(Box::new(Part { read, groups, stage: self, wide, sums, means }))
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

struct Part<'s> {
    read: SigSlice,
    groups: Groups,
    stage: &'s Bin,
    /// A row of sums over the rows of a bin.
    wide: Scratch,
    sums: Scratch,
    means: Scratch,
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let (stage, frame) = (self.stage, tile.frames());
        let Sums { added, dtype, mean, .. } = stage.sums;
        let too_large = |n: usize| {
            let error = Error::invalid(format!(
                "the stage '{stage}': a sum of pixels of {} does not fit {dtype}",
                stage.input.dtype
            ));
            let error = error.with_hint("make it 'bin … mean=true', or cast to float64 before");
            match frames.get(n) {
                Some(number) => error.with_frame(number),
                None => error,
            }
        };
        if !mean && added == dtype {
            return add_groups(frame, &self.groups, added, &mut self.wide, out, &too_large);
        }
        let sums = self.sums.prepare(len_bytes(out.len() / dtype.size(), added)?)?;
        add_groups(frame, &self.groups, added, &mut self.wide, sums, &too_large)?;
        stage.sums.finish(sums, &mut self.means, out)
    }
}

impl fmt::Display for Bin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factors: Vec<String> = self.factors.iter().map(ToString::to_string).collect();
        write!(f, "bin {}", factors.join(","))?;
        if self.sums.mean { f.write_str(" mean=true") } else { Ok(()) }
    }
}

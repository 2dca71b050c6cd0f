//! One tile in every format and dtype that some UDF of a run wants, each made once.

use super::stages::{Staged, Stages};
use crate::Plan;
use framefold_core::{
    ArrayFormat, CsrScratch, CsrTile, DType, DenseTile, Error, FrameIndices, FrameReader, Result,
    Scratch, convert_csr, densify, sparsify,
};

/// The memory that tiles are made in, reused from tile to tile.
pub(super) struct TileMaker<'p> {
    /// The dtype of the source.
    native: DType,
    stages: Stages<'p>,
    /// Whether some UDF wants dense tiles; stages work on nothing else.
    wants_dense: bool,
    wants_csr: bool,
    /// Whether the source gives sparse rows, and no stage is behind it.
    reads_csr: bool,
    densified: Scratch,
    sparse: CsrScratch,
    dense: Vec<Staged<'p>>,
    csr: Vec<ConvertedCsr<'p>>,
}

/// Where sparse tiles of one dtype are made.
struct ConvertedCsr<'p> {
    dtype: DType,
    values: Scratch,
    /// For what comes out of stages, which is dense first.
    dense: Staged<'p>,
    sparse: CsrScratch,
}

/// A tile in all that is wanted of it.
pub(super) struct Tiles<'t> {
    native: (Option<DenseTile<'t>>, Option<CsrTile<'t>>),
    dense: Vec<(DType, DenseTile<'t>)>,
    csr: Vec<(DType, CsrTile<'t>)>,
}

impl Tiles<'_> {
    /// The dense tile of that dtype.
    pub(super) fn dense(&self, dtype: DType) -> Result<&DenseTile<'_>> {
        let converted = self.dense.iter().find(|(known, _)| *known == dtype).map(|(_, tile)| tile);
        converted.or(self.native.0.as_ref()).ok_or_else(|| missing("dense", dtype))
    }

    /// The sparse tile of that dtype.
    pub(super) fn csr(&self, dtype: DType) -> Result<&CsrTile<'_>> {
        let converted = self.csr.iter().find(|(known, _)| *known == dtype).map(|(_, tile)| tile);
        converted.or(self.native.1.as_ref()).ok_or_else(|| missing("sparse", dtype))
    }
}

fn missing(format: &str, dtype: DType) -> Error {
    Error::bug(format!("no {format} tile of {dtype} was planned"))
}

impl<'p> TileMaker<'p> {
    /// Of all formats and dtypes that UDFs of the plan want.
    pub(super) fn try_new(plan: &'p Plan) -> Result<Self> {
        let wanted: Vec<_> = plan.udfs.iter().map(|udf| (udf.format, udf.input_dtype)).collect();
        TileMaker::of(plan, Stages::of(plan), &wanted)
    }

    /// Of these formats and dtypes.
    pub(super) fn of(
        plan: &'p Plan,
        stages: Stages<'p>,
        wanted: &[(ArrayFormat, DType)],
    ) -> Result<Self> {
        let native = plan.dataset.source().info().dtype.dtype;
        let (mut dense, mut csr) = (Vec::<Staged<'_>>::new(), Vec::<ConvertedCsr<'_>>::new());
        for &(format, dtype) in wanted {
            if dtype == native && stages.are_none() {
                continue;
            }
            if format == ArrayFormat::Csr {
                if !csr.iter().any(|known| known.dtype == dtype) {
                    csr.push(ConvertedCsr {
                        dtype,
                        values: Scratch::new(),
                        dense: stages.to(dtype)?,
                        sparse: CsrScratch::new(),
                    });
                }
            } else if !dense.iter().any(|known| known.dtype == dtype) {
                dense.push(stages.to(dtype)?);
            }
        }
        let wants = |format| wanted.iter().any(|&(each, _)| each == format);
        let wants_csr = wants(ArrayFormat::Csr);
        let sparse_source = plan.dataset.source().format() == ArrayFormat::Csr;
        Ok(TileMaker {
            native,
            wants_dense: wants(ArrayFormat::Dense),
            wants_csr,
            reads_csr: sparse_source && wants_csr && stages.are_none(),
            stages,
            densified: Scratch::new(),
            sparse: CsrScratch::new(),
            dense,
            csr,
        })
    }

    /// Reads what stages need of `frames` for slice number `slice`, and makes of it all that is
    /// wanted.
    pub(super) fn make<'t>(
        &'t mut self,
        reader: &'t mut dyn FrameReader,
        frames: FrameIndices<'_>,
        slice: usize,
    ) -> Result<Tiles<'t>> {
        let read = self.stages.read(slice);
        let n_frames = frames.len();
        let native = if self.reads_csr {
            let tile = reader.read_csr(frames, read)?;
            tile.check(n_frames, read, self.native)?;
            let dense =
                self.wants_dense.then(|| densify(&tile, &mut self.densified)).transpose()?;
            (dense, Some(tile))
        } else {
            let tile = reader.read(frames, read)?;
            tile.check(n_frames, read, self.native)?;
            let sparse = self.wants_csr && self.stages.are_none();
            let csr = sparse.then(|| sparsify(&tile, &mut self.sparse)).transpose()?;
            (Some(tile), csr)
        };
        let mut dense = Vec::with_capacity(self.dense.len());
        for target in &mut self.dense {
            let native = native.0.as_ref().ok_or_else(|| missing("dense", target.dtype))?;
            dense.push((target.dtype, target.make(native, slice)?));
        }
        let mut csr = Vec::with_capacity(self.csr.len());
        for target in &mut self.csr {
            let ConvertedCsr { dtype, values, dense, sparse } = target;
            let tile = match &native {
                (_, Some(native)) => convert_csr(native, *dtype, values)?,
                (Some(native), None) => sparsify(&dense.make(native, slice)?, sparse)?,
                _ => return Err(missing("sparse", *dtype)),
            };
            csr.push((*dtype, tile));
        }
        Ok(Tiles { native, dense, csr })
    }
}

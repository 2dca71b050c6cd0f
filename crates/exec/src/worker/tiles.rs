//! One tile in every format and dtype that some UDF of a run wants, each made once.

use crate::Plan;
use framefold_core::{
    ArrayFormat, CorrectedSlice, CorrectionPlanes, CsrScratch, CsrTile, DType, DenseTile, Error,
    FrameIndices, FrameReader, Result, Scratch, SigSlice, convert_csr, convert_tile, correct_tile,
    densify, sparsify,
};

/// The memory that tiles are made in, reused from tile to tile.
pub(super) struct TileMaker {
    /// Whether some UDF wants dense tiles; corrections work on nothing else.
    wants_dense: bool,
    wants_csr: bool,
    /// Whether the source gives sparse rows to which no corrections apply.
    reads_csr: bool,
    densified: Scratch,
    sparse: CsrScratch,
    dense: Vec<ConvertedDense>,
    csr: Vec<ConvertedCsr>,
}

/// Where dense tiles of one dtype are made.
struct ConvertedDense {
    dtype: DType,
    scratch: Scratch,
    /// Dark frame and gain map in that dtype, if there are corrections.
    planes: Option<CorrectionPlanes>,
}

/// Where sparse tiles of one dtype are made.
struct ConvertedCsr {
    dtype: DType,
    values: Scratch,
    /// For corrected tiles, which are dense first.
    dense: ConvertedDense,
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

impl TileMaker {
    pub(super) fn try_new(plan: &Plan) -> Result<Self> {
        let native = plan.dataset.source().info().dtype.dtype;
        let corrections = plan.dataset.corrections();
        let converted = |dtype| -> Result<ConvertedDense> {
            let planes = corrections.map(|c| CorrectionPlanes::try_new(c, dtype)).transpose()?;
            Ok(ConvertedDense { dtype, scratch: Scratch::new(), planes })
        };
        let (mut dense, mut csr) = (Vec::<ConvertedDense>::new(), Vec::<ConvertedCsr>::new());
        for planned in &plan.udfs {
            let (format, dtype) = (planned.format, planned.input_dtype);
            if dtype == native && corrections.is_none() {
                continue;
            }
            if format == ArrayFormat::Csr {
                if !csr.iter().any(|known| known.dtype == dtype) {
                    csr.push(ConvertedCsr {
                        dtype,
                        values: Scratch::new(),
                        dense: converted(dtype)?,
                        sparse: CsrScratch::new(),
                    });
                }
            } else if !dense.iter().any(|known| known.dtype == dtype) {
                dense.push(converted(dtype)?);
            }
        }
        let wants = |format| plan.udfs.iter().any(|planned| planned.format == format);
        let wants_csr = wants(ArrayFormat::Csr);
        let sparse_source = plan.dataset.source().format() == ArrayFormat::Csr;
        Ok(TileMaker {
            wants_dense: wants(ArrayFormat::Dense),
            wants_csr,
            reads_csr: sparse_source && wants_csr && corrections.is_none(),
            densified: Scratch::new(),
            sparse: CsrScratch::new(),
            dense,
            csr,
        })
    }

    /// Reads `frames` at `sig`, or what has to be read to correct them, and makes of it all that
    /// is wanted.
    pub(super) fn make<'t>(
        &'t mut self,
        reader: &'t mut dyn FrameReader,
        frames: FrameIndices<'_>,
        sig: &SigSlice,
        corrected: Option<&CorrectedSlice>,
    ) -> Result<Tiles<'t>> {
        let read = corrected.map_or(sig, CorrectedSlice::read);
        let n_frames = frames.len();
        let native = if self.reads_csr {
            let tile = reader.read_csr(frames, read)?;
            check_geometry((tile.depth(), tile.frame_len()), n_frames, read)?;
            let dense =
                self.wants_dense.then(|| densify(&tile, &mut self.densified)).transpose()?;
            (dense, Some(tile))
        } else {
            let tile = reader.read(frames, read)?;
            check_geometry((tile.frames().depth(), tile.frames().frame_len()), n_frames, read)?;
            let sparse = self.wants_csr && corrected.is_none();
            let csr = sparse.then(|| sparsify(&tile, &mut self.sparse)).transpose()?;
            (Some(tile), csr)
        };
        let mut dense = Vec::with_capacity(self.dense.len());
        for target in &mut self.dense {
            let native = native.0.as_ref().ok_or_else(|| missing("dense", target.dtype))?;
            dense.push((target.dtype, target.make(native, corrected)?));
        }
        let mut csr = Vec::with_capacity(self.csr.len());
        for target in &mut self.csr {
            let ConvertedCsr { dtype, values, dense, sparse } = target;
            let tile = match (&native, corrected) {
                ((_, Some(native)), None) => convert_csr(native, *dtype, values)?,
                ((Some(native), _), Some(_)) => sparsify(&dense.make(native, corrected)?, sparse)?,
                _ => return Err(missing("sparse", *dtype)),
            };
            csr.push((*dtype, tile));
        }
        Ok(Tiles { native, dense, csr })
    }
}

impl ConvertedDense {
    fn make<'t>(
        &'t mut self,
        native: &DenseTile<'t>,
        corrected: Option<&CorrectedSlice>,
    ) -> Result<DenseTile<'t>> {
        match (corrected, &self.planes) {
            (Some(slice), Some(planes)) => correct_tile(native, slice, planes, &mut self.scratch),
            _ => convert_tile(native, self.dtype, &mut self.scratch),
        }
    }
}

/// A source that hands out another tile than was asked for must not get any further.
fn check_geometry(found: (usize, usize), n_frames: usize, sig: &SigSlice) -> Result<()> {
    let expected = (n_frames, sig.len());
    if found == expected {
        return Ok(());
    }
    Err(Error::bug(format!(
        "the source gave {} frames of {} cells, but {} of {} were asked for",
        found.0, found.1, expected.0, expected.1
    )))
}

//! A function that others have compiled, called by its address once per tile, is a UDF like any
//! other: the contracts need nothing that only Rust can give.

use crate::support::dataset;
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, Error, ErrorKind, InputDType, JobMeta,
    Merger, NativeArray, Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, Udf,
};
use framefold_kernels::Sum;
use framefold_testkit::{Agreement, cases, check_udf, cut, evaluate, runs_with_data};
use proptest::prelude::*;
use std::sync::Arc;

/// A tile as C sees it. Rows are those of the slice, `row` cells long.
#[repr(C)]
struct CTile {
    cells: *const f64,
    depth: usize,
    frame_len: usize,
    /// Cells from one frame to the next.
    stride: usize,
    first_in_partition: usize,
    /// Where each run of `row` cells begins in the whole frame.
    row_starts: *const usize,
    row: usize,
}

/// Returns 0, or what went wrong.
type Process = unsafe extern "C" fn(*const CTile, buffers: *const *mut f64, n: usize) -> i32;

/// What would come in a capsule.
#[repr(C)]
struct Table {
    process: Process,
}

/// Adds up frames (`sums`, nav), and each of their cells (`frame`, sig).
///
/// # Safety
/// `tile` and the two buffers must be as [`CTile`] and the declarations say.
unsafe extern "C" fn sums(tile: *const CTile, buffers: *const *mut f64, n: usize) -> i32 {
    if n != 2 {
        return 1;
    }
    // SAFETY: the caller's promise.
    let (tile, sums, frame) = unsafe { (&*tile, *buffers, *buffers.add(1)) };
    for i in 0..tile.depth {
        for cell in 0..tile.frame_len {
            // SAFETY: within the tile, and within the buffers of the partition and the frame.
            unsafe {
                let value = *tile.cells.add(i * tile.stride + cell);
                *sums.add(tile.first_in_partition + i) += value;
                *frame.add(*tile.row_starts.add(cell / tile.row) + cell % tile.row) += value;
            }
        }
    }
    0
}

unsafe extern "C" fn fails(_: *const CTile, _: *const *mut f64, _: usize) -> i32 {
    7
}

static SUMS: Table = Table { process: sums };
static FAILS: Table = Table { process: fails };

/// The adapter: what it needs to know is plain data.
struct ByAddress {
    table: &'static Table,
}

impl ByAddress {
    fn decls() -> Vec<BufferDecl> {
        [("sums", BufferKind::Nav), ("frame", BufferKind::Sig)]
            .map(|(name, kind)| BufferDecl::new(name, kind, DType::F64))
            .to_vec()
    }

    fn buffers(run: &RunMeta, n_frames: usize) -> Result<Vec<NativeArray>> {
        let zeros = |decl: &BufferDecl| {
            NativeArray::try_zeros(DType::F64, &decl.flat_shape(&run.job.shape, n_frames))
        };
        ByAddress::decls().iter().map(zeros).collect()
    }
}

impl Udf for ByAddress {
    fn name(&self) -> &str {
        "by address"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements { input: InputDType::AtLeast(DType::F64), ..Requirements::native_tiles() })
    }

    fn buffers(&self, _job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(ByAddress::decls())
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let buffers = ByAddress::buffers(run, partition.n_frames())?;
        let sig_shape = run.job.shape.sig().to_vec();
        Ok(Box::new(Task { table: self.table, buffers, sig_shape }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(Box::new(Merged(ByAddress::buffers(run, run.job.n_selected())?)))
    }
}

struct Task {
    table: &'static Table,
    /// The host's memory.
    buffers: Vec<NativeArray>,
    sig_shape: Vec<usize>,
}

impl Accumulator for Task {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = tile.frames();
        if frames.dtype() != DType::F64 {
            return Err(Error::bug(format!("a tile of {}", frames.dtype())));
        }
        let runs: Vec<_> = tile.position.sig.runs(&self.sig_shape).collect();
        let row_starts: Vec<usize> = runs.iter().map(|run| run.start).collect();
        let c_tile = CTile {
            cells: frames.as_bytes().as_ptr().cast(),
            depth: frames.depth(),
            frame_len: frames.frame_len(),
            stride: frames.stride(),
            first_in_partition: tile.position.in_partition.start,
            row_starts: row_starts.as_ptr(),
            row: runs.first().map_or(1, ExactSizeIterator::len),
        };
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for buffer in &mut self.buffers {
            buffers.push(buffer.as_mut_slice::<f64>()?.as_mut_ptr());
        }
        // SAFETY: the tile and the buffers are valid during the call, of the shapes declared.
        let status = unsafe { (self.table.process)(&raw const c_tile, buffers.as_ptr(), 2) };
        match status {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::UserCode, format!("the function returned {status}"))),
        }
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let arrays = ByAddress::decls().into_iter().zip(self.buffers);
        Ok(arrays.fold(Partial::new(), |partial, (decl, array)| partial.with(decl.name, array)))
    }
}

struct Merged(Vec<NativeArray>);

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        let [sums, frame] = &mut self.0[..] else { return Err(Error::bug("two buffers")) };
        let rows = partial.take_native("sums")?;
        sums.as_mut_slice::<f64>()?[partition.frames.clone()].copy_from_slice(rows.as_slice()?);
        let part = partial.take_native("frame")?;
        for (cell, more) in frame.as_mut_slice::<f64>()?.iter_mut().zip(part.as_slice::<f64>()?) {
            *cell += more;
        }
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        self.0.iter().map(|array| array.try_clone().map(Array::from)).collect()
    }
}

proptest! {
    #[test]
    fn keeps_the_laws_of_udfs(case in cases()) {
        let dtype = case.dtype;
        prop_assume!(dtype.is_integer() && dtype.size() < 8);
        let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
        let udf = ByAddress { table: &SUMS };
        check_udf(&udf, &dataset, roi.as_ref(), Agreement::Exact, case.seed).unwrap();
        let (tiling, partitions) = (case.tiling().unwrap(), case.partitions().unwrap());
        let of = |udf: &dyn Udf| evaluate(udf, &dataset, roi.as_ref(), &tiling, &partitions).unwrap();
        let expected = of(&Sum { dtype: DType::F64 });
        let found = of(&udf);
        prop_assert_eq!(found.get("frame").unwrap(), &expected.arrays[0]);
    }
}

#[test]
fn sums_are_those_of_the_frames() {
    let dataset = dataset(&[3], &[1, 2], vec![1u8, 2, 3, 4, 5, 6]);
    let tiling = Arc::new(framefold_core::TilingScheme::try_new(&[1, 2], &[1, 1], 2).unwrap());
    let partitions = cut(&runs_with_data(&dataset, None), &[2]);
    let results = |table| evaluate(&ByAddress { table }, &dataset, None, &tiling, &partitions);
    let found = results(&SUMS).unwrap();
    assert_eq!(found.arrays[0].as_slice::<f64>().unwrap(), [3.0, 7.0, 11.0]);
    assert_eq!(found.arrays[1].as_slice::<f64>().unwrap(), [9.0, 12.0]);
    let error = results(&FAILS).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::UserCode, "the function returned 7"));
}

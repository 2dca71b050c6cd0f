//! A compiled function as an implementer of the engine's contract.

use crate::accumulator::PluginAccumulator;
use crate::call::{call, declared};
use crate::dtype::{described, dtype};
use crate::job::{raw_job, raw_job_of_source};
use crate::merger::{PluginMerger, check_entries};
use crate::table::Table;
use framefold_abi::raw;
use framefold_core::{
    Accumulator, ArrayFormat, BufferDecl, Error, InputDType, JobMeta, Merger, Method, Partition,
    Requirements, Result, RunMeta, SourceInfo, Udf,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A function that is all in its table.
#[derive(Debug)]
pub struct PluginUdf {
    table: Arc<Table>,
    /// Whether it ever asked for views without gaps; it gets them from then on.
    contiguous: AtomicBool,
}

impl PluginUdf {
    /// The function of that table.
    pub fn new(table: Arc<Table>) -> Self {
        PluginUdf { table, contiguous: AtomicBool::new(false) }
    }

    /// Its table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn required(&self, source: &SourceInfo) -> Result<raw::Requirements> {
        let Some(requirements) = self.table.raw.requirements else {
            return Err(Error::bug("a table without requirements was let through"));
        };
        let job = raw_job_of_source(source);
        let mut asked = raw::Requirements {
            size: size_of::<raw::Requirements>(),
            method: raw::TILE,
            input: 0,
            formats: raw::DENSE,
            depth: 0,
            tile_bytes: 0,
            contiguous: 0,
        };
        let this = self.table.raw.this;
        // SAFETY: the table obeys `framefold.h`, and so do these arguments.
        let outcome =
            call(|host| unsafe { requirements(this, &raw const job, &raw mut asked, host) });
        outcome.map_err(|failure| failure.into_error("asking for its requirements"))?;
        Ok(asked)
    }
}

impl Udf for PluginUdf {
    fn name(&self) -> &str {
        self.table.name()
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let asked = self.required(source)?;
        let method = match asked.method {
            raw::TILE => Method::Tile,
            raw::FRAMES => Method::Frame,
            raw::PARTITION => Method::Partition,
            other => {
                return Err(Error::invalid(format!("it asks for the unknown method {other}"))
                    .with_hint("use FF_TILE, FF_FRAMES or FF_PARTITION"));
            }
        };
        let input = match (asked.input, dtype(asked.input, source.dtype.dtype)) {
            (0, _) => InputDType::Native,
            (_, Some(dtype)) => InputDType::AtLeast(dtype),
            (other, None) => {
                let found = described(other);
                return Err(Error::invalid(format!("it asks for the unknown dtype {found}"))
                    .with_hint("make it by FF_DTYPE of a letter and a size that NumPy knows"));
            }
        };
        let formats = match asked.formats {
            raw::DENSE => vec![ArrayFormat::Dense],
            raw::CSR => vec![ArrayFormat::Csr],
            both if both == raw::DENSE | raw::CSR => vec![ArrayFormat::Dense, ArrayFormat::Csr],
            other => {
                return Err(Error::invalid(format!("it asks for the unknown formats {other}"))
                    .with_hint("use FF_DENSE, FF_CSR, or their sum"));
            }
        };
        let entries = &self.table.raw;
        for (format, entry, is_there) in [
            (ArrayFormat::Dense, "process", entries.process.is_some()),
            (ArrayFormat::Csr, "process_csr", entries.process_csr.is_some()),
        ] {
            if formats.contains(&format) && !is_there {
                return Err(Error::invalid(format!(
                    "it asks for {} tiles, but its table has no function '{entry}'",
                    format.name()
                ))
                .with_hint(format!("set the entry '{entry}' of ff_udf_v1")));
            }
        }
        if asked.contiguous != 0 {
            self.contiguous.store(true, Ordering::Relaxed);
        }
        let given = |n: usize| (n > 0).then_some(n);
        Ok(Requirements {
            method,
            input,
            formats,
            tile_depth: given(asked.depth),
            tile_bytes: given(asked.tile_bytes),
            by_rows: entries.merge.is_none() && entries.results.is_none(),
            ..Requirements::native_tiles()
        })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        let Some(buffers) = self.table.raw.buffers else {
            return Err(Error::bug("a table without buffers was let through"));
        };
        let (this, raw_job) = (self.table.raw.this, raw_job(job));
        // SAFETY: the table obeys `framefold.h`, and so do these arguments.
        let decls = declared(job, |host| unsafe { buffers(this, &raw const raw_job, host) })?;
        check_entries(&self.table, &decls)?;
        Ok(decls)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let decls = Arc::from(self.buffers(&run.job)?);
        let contiguous = self.contiguous.load(Ordering::Relaxed);
        let table = self.table.clone();
        // SAFETY: the function has declared them just now, and asked for what has no gaps if it needs that.
        let begun =
            unsafe { PluginAccumulator::begin(table, decls, contiguous, run, partition, None) }?;
        Ok(Box::new(begun))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let decls = Arc::from(self.buffers(&run.job)?);
        Ok(Box::new(PluginMerger::try_new(self.table.clone(), decls, run)?))
    }
}

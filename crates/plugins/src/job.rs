//! What functions get to know of a run.

use crate::dtype::number;
use framefold_abi::raw;
use framefold_core::{ArrayFormat, JobMeta, Partition, RunMeta, SourceInfo};
use std::ptr::null;

/// Valid for as long as `job` is.
pub(crate) fn raw_job(job: &JobMeta) -> raw::Job {
    raw::Job {
        size: size_of::<raw::Job>(),
        n_nav: job.shape.nav().len(),
        nav_shape: job.shape.nav().as_ptr(),
        n_sig: job.shape.sig().len(),
        sig_shape: job.shape.sig().as_ptr(),
        native_dtype: number(job.native_dtype),
        input_dtype: number(job.input_dtype),
        n_selected: job.n_selected(),
        positions: job.roi.as_ref().map_or(null(), |roi| roi.positions().as_ptr()),
    }
}

/// What is known before anything is chosen; valid for as long as `source` is.
pub(crate) fn raw_job_of_source(source: &SourceInfo) -> raw::Job {
    raw::Job {
        size: size_of::<raw::Job>(),
        n_nav: source.nav_shape.len(),
        nav_shape: source.nav_shape.as_ptr(),
        n_sig: source.sig_shape.len(),
        sig_shape: source.sig_shape.as_ptr(),
        native_dtype: number(source.dtype.dtype),
        input_dtype: 0,
        n_selected: usize::try_from(source.n_frames).unwrap_or(usize::MAX),
        positions: null(),
    }
}

/// Valid for as long as `job` is.
pub(crate) fn raw_run(run: &RunMeta, job: &raw::Job, partition: &Partition) -> raw::Run {
    raw::Run {
        size: size_of::<raw::Run>(),
        job,
        format: if run.format == ArrayFormat::Csr { raw::CSR } else { raw::DENSE },
        n_partitions: run.partitions.len(),
        partition: partition.index,
        first_frame: partition.frames.start,
        n_frames: partition.n_frames(),
    }
}

//! Files in which frames follow each other.

use super::Job;
use super::bytes::write_at;
use super::checksum::Checksums;
use super::frames::Frames;
use super::pool::{Link, share};
use crate::write::whole::WholeOutput;
use framefold_core::{Error, Result};

/// A file whose pixels begin at some byte.
pub(super) struct Flat<'j> {
    job: &'j Job<'j>,
    target: &'j WholeOutput,
    first_pixel: u64,
}

impl<'j> Flat<'j> {
    pub(super) fn new(job: &'j Job<'j>, target: &'j WholeOutput, first_pixel: u64) -> Self {
        Flat { job, target, first_pixel }
    }

    /// Writes all pixels, straight from where the source has them, and gives where they end.
    pub(super) fn store(
        &self,
        sums: &Checksums,
        tick: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let job = self.job;
        let frame_bytes = (job.dataset.shape().frame_len() * job.cast.to.size()) as u64;
        let n_frames = job.selection.len() as u64;
        let end = n_frames.checked_mul(frame_bytes).and_then(|n| n.checked_add(self.first_pixel));
        let end = end.ok_or_else(|| Error::limit("the output would not fit a file"))?;
        let worker = || Frames::try_new(job.dataset, job.cast);
        let work = |frames: &mut Frames<'_>, index: usize, link: &Link<'_>| {
            let unit = job.units.get(index)?;
            let positions = job.units.positions(&unit)?;
            let first = positions.first().copied().unwrap_or(0);
            let mut take = |start: usize, bytes: &[u8]| {
                job.sum(sums, &positions, &unit, start, bytes);
                let at = self.first_pixel + (first + start) as u64 * frame_bytes;
                write_at(self.target.file()?, bytes, at, job.path)?;
                link.done(bytes.len() as u64 / frame_bytes.max(1))
            };
            frames.read(&job.frames_at(&positions)?, unit.slice, &mut take)
        };
        share(job.units.len(), job.options.threads, &worker, &work, tick)?;
        Ok(end)
    }
}

//! One pass over the data on all cores, which can be looked at while it goes on and stopped.

use framefold::core::Udf;
use framefold::exec::{Event, Observer, Results};
use framefold::{Cancel, Dataset, Executor, Plan, PlanOptions, Result, Roi, RunResults};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a pass is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Called now and then with the results so far, and the part of the frames that is in them.
pub(crate) type Look<'a> = dyn FnMut(&Results, f64) -> Result<()> + 'a;

/// Runs `udfs` over the positions that `roi` selects.
///
/// # Errors
/// Those of reading; `Cancelled`; that of `look`, which ends the pass.
pub(crate) fn run(
    dataset: &Dataset,
    udfs: Vec<Arc<dyn Udf>>,
    roi: Option<Arc<Roi>>,
    cancel: &Cancel,
    look: &mut Look<'_>,
) -> Result<RunResults> {
    cancel.check()?;
    let plan = Arc::new(Plan::try_new(dataset, udfs, roi, &PlanOptions::default())?);
    // A few frames are not worth any thread.
    let executor = match plan.n_partitions() {
        0 | 1 => Executor::Inline,
        _ => Executor::Threads(None),
    };
    let mut looking = Looking { look, last: Instant::now(), n_frames: plan.n_frames().max(1) };
    let options =
        framefold::RunOptions { executor, cancel: cancel.clone(), observer: &mut looking };
    framefold::run(&plan, options)?.snapshot()
}

struct Looking<'l, 'a> {
    look: &'l mut Look<'a>,
    last: Instant,
    n_frames: usize,
}

impl Observer for Looking<'_, '_> {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        if let Event::Merged { frames, .. } = event
            && self.last.elapsed() >= BETWEEN_LOOKS
            && *frames < self.n_frames
        {
            (self.look)(results, *frames as f64 / self.n_frames as f64)?;
            self.last = Instant::now();
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

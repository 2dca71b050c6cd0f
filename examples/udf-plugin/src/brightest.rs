//! Finds the brightest pixel of each frame.

use framefold_abi::{Buffer, DType, Failure, Function, Job, Method, Requirements, Tile, Views};

/// The largest value of each frame, and where it is: its first place in C order.
pub(crate) struct Finding;

impl Function for Finding {
    type Task = ();

    // One row per frame, which is final when its partition ends: `run_udf(out=…)` writes them as they come.
    const FINAL_ROWS: bool = true;

    fn name(&self) -> &str {
        "Brightest"
    }

    fn requirements(&self, _job: &Job<'_>) -> Result<Requirements, Failure> {
        let input = DType::of::<f64>();
        Ok(Requirements { method: Method::Frames, input, ..Requirements::default() })
    }

    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        Ok(vec![Buffer::nav::<f64>("value"), Buffer::nav::<u64>("place")])
    }

    fn process(
        &self,
        _task: &mut (),
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let [value, place] = views.take()?;
        let (mut value, mut place) = (value.of::<f64>()?, place.of::<u64>()?);
        let rows = value.as_mut_slice()?.iter_mut().zip(place.as_mut_slice()?);
        for ((value, place), frame) in rows.zip(tile.frames::<f64>()?) {
            let brightest = frame.iter().enumerate().fold((0, f64::NEG_INFINITY), larger);
            (*place, *value) = (brightest.0 as u64, brightest.1);
        }
        Ok(())
    }
}

/// The larger of two pixels; the first one of equal ones, and the first one that is no number, as in NumPy.
fn larger(found: (usize, f64), (place, &value): (usize, &f64)) -> (usize, f64) {
    let is_larger = value > found.1 || value.is_nan();
    if is_larger && !found.1.is_nan() { (place, value) } else { found }
}

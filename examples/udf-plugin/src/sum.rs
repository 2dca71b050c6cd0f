//! Adds up frames.

use framefold_abi::{Buffer, DType, Failure, Function, Job, Tile, Views};

/// The sum of all frames of 16 bits, pixel by pixel.
pub(crate) struct Summing;

/// So many frames are read side by side, so that each sum is loaded and stored once for all of them.
const GROUP: usize = 8;
/// Of so many frames, a sum always fits 32 bits.
const MOST_FRAMES: usize = 1 << 16;

impl Function for Summing {
    type Task = ();

    fn name(&self) -> &str {
        "Sum"
    }

    fn buffers(&self, job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        let (dtype, n_frames) = (job.native_dtype(), job.n_selected());
        if dtype != DType::of::<u16>() {
            return Err(format!("the data are of {dtype}, expected uint16").into());
        }
        if n_frames > MOST_FRAMES {
            let why =
                format!("sums of {n_frames} frames may not fit, expected at most {MOST_FRAMES}");
            return Err(why.into());
        }
        Ok(vec![Buffer::sig::<u32>("image")])
    }

    fn process(
        &self,
        _task: &mut (),
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let [image] = views.take()?;
        let mut image = image.of::<u32>()?;
        let image = image.as_mut_slice()?;
        let frames: Vec<&[u16]> = tile.frames()?.collect();
        let (groups, rest) = frames.as_chunks::<GROUP>();
        groups.iter().for_each(|group| add(image, group));
        rest.iter().for_each(|frame| add(image, &[*frame]));
        Ok(())
    }

    fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
        let new = src.read::<u32>(0)?;
        let [image] = dest.take()?;
        let mut image = image.of::<u32>()?;
        image.as_mut_slice()?.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        Ok(())
    }
}

/// Adds `N` frames. The compiler turns these loops into vector instructions, and not an iterator's `sum`.
fn add<const N: usize>(image: &mut [u32], frames: &[&[u16]; N]) {
    let frames = frames.map(|frame| &frame[..image.len()]);
    for (i, sum) in image.iter_mut().enumerate() {
        let mut of_these = 0;
        for frame in frames {
            of_these += u32::from(frame[i]);
        }
        *sum += of_these;
    }
}

//! A plan in words.

use super::{Plan, Reasons, saturating_u64};
use framefold_core::{BufferDtype, BufferUse, Partition};
use std::fmt;

/// What was decided, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The data set: format, shape, dtype.
    pub dataset: String,
    /// The number of positions that the ROI selects.
    pub n_selected: usize,
    /// The number of frames that will be read.
    pub n_frames: usize,
    /// The number of bytes of pixels that will be read.
    pub bytes_to_read: u64,
    /// The number of partitions.
    pub n_partitions: usize,
    /// The fewest and the most frames in a partition.
    pub frames_per_partition: (usize, usize),
    /// Why there are so many partitions.
    pub why_partitions: String,
    /// The largest number of frames in a tile.
    pub tile_depth: usize,
    /// The shape of a tile on the signal axes.
    pub tile_shape: Vec<usize>,
    /// The number of signal slices a frame is cut into.
    pub n_slices: usize,
    /// Why tiles have that size.
    pub why_tiling: String,
    /// What makes the frames of those of the file, in order.
    pub stages: Vec<String>,
    /// What is corrected in each tile; `None` for pixels as they are.
    pub corrections: Option<String>,
    /// Whether the data set can lend its memory, and nothing is corrected in it.
    pub zero_copy: bool,
    /// Each UDF.
    pub udfs: Vec<UdfExplanation>,
}

/// What was decided for one UDF.
#[derive(Clone, Debug)]
pub struct UdfExplanation {
    /// Its name.
    pub name: String,
    /// Whether it sees tiles, frames or partitions.
    pub method: &'static str,
    /// The array format it gets.
    pub format: String,
    /// The dtype conversion: `uint16 → float32`, or `uint16, as it is`.
    pub dtype: String,
    /// Its buffers.
    pub buffers: Vec<BufferExplanation>,
}

/// What a UDF declares of a buffer.
#[derive(Clone, Debug)]
pub struct BufferExplanation {
    /// Its name.
    pub name: String,
    /// `nav`, `sig` or `single`.
    pub kind: &'static str,
    /// Its shape; the axes of the scan are one, as long as there are selected positions.
    pub shape: Vec<usize>,
    /// Its dtype.
    pub dtype: BufferDtype,
    /// What is special about it, or nothing.
    pub usage: &'static str,
}

pub(super) fn explain(plan: &Plan, reasons: &Reasons) -> Explanation {
    let info = plan.dataset.source().info();
    let shape = plan.dataset.shape();
    let sizes = || plan.cuts.iter().map(Partition::n_frames);
    let udfs = plan.udfs.iter().map(|planned| {
        let (native, input) = (info.dtype.dtype, planned.input_dtype);
        let buffers = planned.buffers.iter().map(|decl| {
            let dims = decl.flat_shape(shape, plan.n_selected());
            let usage = match decl.usage {
                BufferUse::Public => "",
                BufferUse::Private => "private",
                BufferUse::ResultOnly => "computed from the merged result",
            };
            let (name, kind) = (decl.name.clone(), decl.kind.name());
            BufferExplanation { name, kind, shape: dims, dtype: decl.dtype.clone(), usage }
        });
        UdfExplanation {
            name: planned.name.clone(),
            method: planned.requirements.method.name(),
            format: planned.format.name().to_owned(),
            dtype: if native == input {
                format!("{native}, as it is")
            } else {
                format!("{native} → {input}")
            },
            buffers: buffers.collect(),
        }
    });
    let n_frames = plan.n_frames();
    let orientation = plan.dataset.source().orientation();
    let turned = match orientation.is_none() {
        true => String::new(),
        false => format!(", turned ({orientation})"),
    };
    let stages = plan.dataset.source().stages();
    Explanation {
        dataset: format!("{}, shape {shape}, {}{turned}", info.format, info.dtype),
        n_selected: plan.n_selected(),
        n_frames,
        bytes_to_read: saturating_u64(n_frames).saturating_mul(plan.frame_bytes()),
        n_partitions: plan.n_partitions(),
        frames_per_partition: (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0)),
        why_partitions: reasons.partitions.clone(),
        tile_depth: plan.tiling.depth(),
        tile_shape: plan.tiling.tile_shape().to_vec(),
        n_slices: plan.tiling.slices().len(),
        why_tiling: reasons.tiling.clone(),
        stages,
        corrections: plan.dataset.corrections().map(|_| corrections(plan)),
        zero_copy: super::formats::lends(&plan.dataset, &plan.formats()),
        udfs: udfs.collect(),
    }
}

/// `dark frame, 3 excluded pixels, in float32; 2 of 8 parts of a frame are read with …`
fn corrections(plan: &Plan) -> String {
    let Some(corrections) = plan.dataset.corrections() else { return String::new() };
    let parts = plan.corrected.iter().zip(plan.tiling.slices());
    let larger = parts.filter(|(part, slice)| part.read().len() > slice.len()).count();
    let reading = match larger {
        0 => String::new(),
        n => format!(
            "; {n} of {} parts of a frame are read with some pixels around them, to repair those \
             at their edges",
            plan.corrected.len()
        ),
    };
    format!("{corrections}, in {}{reading}", plan.dataset.pixel_dtype())
}

impl Explanation {
    /// What holds for the whole run: what is decided, and how.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let missing = match self.n_selected - self.n_frames.min(self.n_selected) {
            0 => String::new(),
            n => format!(" ({n} of {} selected positions have no data)", self.n_selected),
        };
        let how = match (&self.corrections, self.zero_copy) {
            (Some(_), _) => "corrected into a buffer",
            (None, true) => "lent as it lies in memory",
            (None, false) => "decoded into a buffer",
        };
        let (least, most) = self.frames_per_partition;
        let frames = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let mut lines = vec![
            ("data set", self.dataset.clone()),
            ("read", format!("{} frames, {}{missing}", self.n_frames, bytes(self.bytes_to_read))),
            (
                "partitions",
                format!("{} of {frames} frames: {}", self.n_partitions, self.why_partitions),
            ),
            (
                "tiles",
                format!(
                    "up to {} frames × {:?} ({} per frame), {how}: {}",
                    self.tile_depth, self.tile_shape, self.n_slices, self.why_tiling
                ),
            ),
        ];
        if !self.stages.is_empty() {
            lines.insert(1, ("stages", self.stages.join(", then ")));
        }
        lines.extend(self.corrections.clone().map(|text| ("corrections", text)));
        lines
    }
}

impl UdfExplanation {
    /// How it runs: method, array format, dtype.
    #[must_use]
    pub fn how(&self) -> String {
        format!("by {}, {}, {}", self.method, self.format, self.dtype)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, how) in self.lines() {
            writeln!(f, "{what:<12}{how}")?;
        }
        for udf in &self.udfs {
            writeln!(f, "{:<12}{}: {}", "udf", udf.name, udf.how())?;
            for buffer in &udf.buffers {
                writeln!(f, "              {buffer}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for BufferExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?} {}", self.name, self.kind, self.shape, self.dtype)?;
        if self.usage.is_empty() { Ok(()) } else { write!(f, ", {}", self.usage) }
    }
}

/// A size with a binary unit and three digits: `1.50 MiB`.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{n} B");
    }
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

pub(super) fn bytes_usize(n: usize) -> String {
    bytes(saturating_u64(n))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_have_three_digits() {
        assert_eq!(bytes(17), "17 B");
        assert_eq!(bytes(1 << 20), "1.00 MiB");
        assert_eq!(bytes(1536 << 10), "1.50 MiB");
        assert_eq!(bytes(123 << 30), "123 GiB");
    }
}

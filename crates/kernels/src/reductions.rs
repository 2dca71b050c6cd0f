//! The table of all native reductions.

/// One native reduction, as the command line lists it.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The name of its UDF.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The names of its result buffers, in the order of its results.
    pub buffers: &'static [&'static str],
}

/// All native reductions, in the order in which they are listed: simple ones first.
pub const REDUCTIONS: &[Reduction] = &[
    Reduction {
        name: "sum",
        summary: "sum of all frames, pixel by pixel",
        buffers: &["intensity"],
    },
    Reduction { name: "sum_sig", summary: "sum of each frame", buffers: &["intensity"] },
    Reduction {
        name: "max",
        summary: "largest value of each pixel over all frames",
        buffers: &["intensity"],
    },
    Reduction {
        name: "stddev",
        summary: "mean, variance and standard deviation of each pixel",
        buffers: &["varsum", "num_frames", "sum", "var", "std", "mean"],
    },
    Reduction {
        name: "com",
        summary: "centre of mass of each frame, and the field of its shifts",
        buffers: &["raw_com", "raw_shifts", "field", "field_y", "field_x", "magnitude"],
    },
    Reduction {
        name: "masks",
        summary: "product of each frame with masks, such as disk or ring detectors",
        buffers: &["intensity"],
    },
    Reduction {
        name: "logsum",
        summary: "sum of all frames on a logarithmic scale",
        buffers: &["logsum"],
    },
    Reduction { name: "pick", summary: "the selected frames themselves", buffers: &["intensity"] },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Com, LogSum, Masks, Max, Pick, StdDev, Sum, SumSig};
    use framefold_core::{DType, JobMeta, NativeArray, Shape, Udf};

    #[test]
    fn the_table_says_what_the_reductions_declare() {
        let job = JobMeta {
            shape: Shape::try_new(&[2, 3], &[4, 5]).unwrap(),
            native_dtype: DType::U16,
            input_dtype: DType::U16,
            roi: None,
        };
        let masks = NativeArray::zeros(DType::F32, &[1, 4, 5]);
        let udfs: [Box<dyn Udf>; 8] = [
            Box::new(Sum::default()),
            Box::new(SumSig),
            Box::new(Max),
            Box::new(StdDev::default()),
            Box::new(Com::default()),
            Box::new(Masks::try_new(masks).unwrap()),
            Box::new(LogSum),
            Box::new(Pick::default()),
        ];
        assert_eq!(udfs.len(), REDUCTIONS.len());
        for (udf, reduction) in udfs.iter().zip(REDUCTIONS) {
            assert_eq!(udf.name(), reduction.name);
            let declared = udf.buffers(&job).unwrap();
            let names: Vec<&str> = declared.iter().map(|decl| decl.name.as_str()).collect();
            assert_eq!(names, reduction.buffers, "{}", reduction.name);
        }
    }
}

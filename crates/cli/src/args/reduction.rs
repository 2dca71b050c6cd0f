//! The reductions and the options that only one of them has.

use super::parse;
use clap::{Args, Subcommand};
use framefold::core::StoredDType;
use std::path::PathBuf;

/// A reduction with its parameters and the files to run it over.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "REDUCTION", subcommand_help_heading = "Reductions")]
pub(crate) enum ReductionArgs {
    /// Sum over the scan: one frame
    Sum(SumArgs),
    /// Sum over each frame: one number per scan position
    #[command(name = "sum_sig", visible_alias = "sumsig")]
    SumSig(PlainArgs),
    /// Largest value over the scan: one frame
    Max(PlainArgs),
    /// Standard deviation, variance and mean over the scan: one frame each
    #[command(name = "stddev")]
    StdDev(SumArgs),
    /// Centre of mass of each frame: a vector field over the scan
    Com(ComArgs),
    /// Virtual detectors: the weighted sum of each frame under masks
    Masks(MasksArgs),
    /// Sum over the scan of the logarithm of each frame
    #[command(name = "logsum")]
    LogSum(PlainArgs),
    /// Frames as they are; choose them with --roi
    Pick(PlainArgs),
}

impl ReductionArgs {
    /// The files to run over.
    pub(crate) fn files(&self) -> &[PathBuf] {
        match self {
            ReductionArgs::Sum(args) | ReductionArgs::StdDev(args) => &args.files,
            ReductionArgs::Com(args) => &args.files,
            ReductionArgs::Masks(args) => &args.files,
            ReductionArgs::SumSig(args)
            | ReductionArgs::Max(args)
            | ReductionArgs::LogSum(args)
            | ReductionArgs::Pick(args) => &args.files,
        }
    }
}

/// A reduction without parameters.
#[derive(Debug, Args)]
pub(crate) struct PlainArgs {
    /// The files to run over, one after the other
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// A reduction whose result dtype can be chosen.
#[derive(Debug, Args)]
pub(crate) struct SumArgs {
    /// The files to run over, one after the other
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The dtype of the result [default: float32 for sums, float64 for deviations]; sums get a
    /// wider one where the pixels need it
    #[arg(long, value_parser = parse::dtype, value_name = "DTYPE")]
    pub result_dtype: Option<StoredDType>,
}

/// Parameters of the centre of mass.
#[derive(Debug, Args)]
pub(crate) struct ComArgs {
    /// The files to run over, one after the other
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Row of the reference point, in pixels [default: the middle of the frame]
    #[arg(long, value_parser = parse::finite, allow_negative_numbers = true, value_name = "PX")]
    pub cy: Option<f64>,
    /// Column of the reference point, in pixels [default: the middle of the frame]
    #[arg(long, value_parser = parse::finite, allow_negative_numbers = true, value_name = "PX")]
    pub cx: Option<f64>,
    /// Only pixels up to this distance from the reference point count
    #[arg(long = "radius", value_parser = parse::radius, default_value = "inf", value_name = "PX")]
    pub r: f64,
    /// Only pixels from this distance on count
    #[arg(long = "inner-radius", value_parser = parse::radius, default_value = "0", value_name = "PX")]
    pub ri: f64,
    /// Angle between the scan and the detector, in degrees
    #[arg(
        long,
        value_parser = parse::finite,
        allow_negative_numbers = true,
        default_value = "0",
        value_name = "DEGREES"
    )]
    pub scan_rotation: f64,
    /// Whether the detector's rows run against the scan's
    #[arg(long)]
    pub flip_y: bool,
}

/// Parameters of virtual detectors.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("geometry").required(true).multiple(true)))]
pub(crate) struct MasksArgs {
    /// The files to run over, one after the other
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A disk: its radius in pixels, or centre and radius: CY,CX,R; may be repeated
    #[arg(long, group = "geometry", value_parser = disk, value_name = "[CY,CX,]R")]
    pub disk: Vec<Detector>,
    /// A ring: its inner and outer radius, or centre and radii: CY,CX,RI,RO; may be repeated
    #[arg(long, group = "geometry", value_parser = ring, value_name = "[CY,CX,]RI,RO")]
    pub ring: Vec<Detector>,
    /// An array of masks: NAME.npy of shape (masks, frame axes) or of a frame's shape
    #[arg(long, group = "geometry", value_name = "NAME.npy")]
    pub masks: Vec<PathBuf>,
}

/// A round virtual detector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Detector {
    /// Row and column of the centre; the middle of the frame if not given.
    pub centre: Option<(f64, f64)>,
    /// Inner radius, for a ring.
    pub inner: Option<f64>,
    /// Outer radius.
    pub outer: f64,
}

fn disk(text: &str) -> Result<Detector, String> {
    match *parse::numbers(text)?.as_slice() {
        [r] if r >= 0.0 => Ok(Detector { centre: None, inner: None, outer: r }),
        [cy, cx, r] if r >= 0.0 => Ok(Detector { centre: Some((cy, cx)), inner: None, outer: r }),
        _ => Err("expected R or CY,CX,R in pixels, for example 20 or 63.5,64,20".into()),
    }
}

fn ring(text: &str) -> Result<Detector, String> {
    match *parse::numbers(text)?.as_slice() {
        [ri, ro] if 0.0 <= ri && ri < ro => {
            Ok(Detector { centre: None, inner: Some(ri), outer: ro })
        }
        [cy, cx, ri, ro] if 0.0 <= ri && ri < ro => {
            Ok(Detector { centre: Some((cy, cx)), inner: Some(ri), outer: ro })
        }
        _ => Err("expected RI,RO or CY,CX,RI,RO in pixels with RI smaller than RO".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detectors_with_and_without_centre() {
        let whole = Detector { centre: None, inner: None, outer: 20.0 };
        assert_eq!(disk("20"), Ok(whole));
        assert_eq!(disk("1,2,20"), Ok(Detector { centre: Some((1.0, 2.0)), ..whole }));
        let annulus = Detector { centre: None, inner: Some(5.0), outer: 20.0 };
        assert_eq!(ring("5,20"), Ok(annulus));
        assert_eq!(ring("1,2,5,20"), Ok(Detector { centre: Some((1.0, 2.0)), ..annulus }));
        for bad in ["", "1,2", "-1", "a", "inf"] {
            assert!(disk(bad).is_err(), "{bad}");
        }
        for bad in ["5", "20,5", "5,5", "1,2,3"] {
            assert!(ring(bad).is_err(), "{bad}");
        }
    }
}

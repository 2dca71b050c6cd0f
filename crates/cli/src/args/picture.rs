//! Options about pictures (`-o NAME.png`, `.jpg`).

use super::parse;
use crate::output::PictureStyle;
use crate::render::{COLORMAPS, Center, Colormap, ScaleOptions};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use framefold::{Error, Result};

/// How results are drawn.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options about pictures")]
pub(crate) struct PictureArgs {
    /// The colour map
    #[arg(
        long,
        global = true,
        default_value = COLORMAPS[0],
        value_parser = PossibleValuesParser::new(COLORMAPS),
        value_name = "NAME"
    )]
    pub cmap: String,
    /// The ends of the colour scale as percentiles of the values [default: 0.1,99.9; of lines 0,100]
    #[arg(
        long,
        global = true,
        value_parser = parse::percentiles,
        value_name = "LOW,HIGH"
    )]
    pub percentile: Option<(f64, f64)>,
    /// The value at the lower end of the colour scale; beyond all values, the other end follows
    #[arg(
        long,
        global = true,
        value_parser = parse::finite,
        allow_negative_numbers = true,
        value_name = "VALUE"
    )]
    pub vmin: Option<f64>,
    /// The value at the upper end of the colour scale
    #[arg(
        long,
        global = true,
        value_parser = parse::finite,
        allow_negative_numbers = true,
        value_name = "VALUE"
    )]
    pub vmax: Option<f64>,
    /// Use a logarithmic colour scale
    #[arg(long, global = true)]
    pub log: bool,
    /// Draw each value as N × N pixels; small results are enlarged by default
    #[arg(long, global = true, value_parser = parse::count, value_name = "N")]
    pub upscale: Option<std::num::NonZeroUsize>,
    /// What to subtract from a vector field before its directions are drawn as colours
    #[arg(long, global = true, value_enum, default_value_t = CenterArg::Median)]
    pub center: CenterArg,
    /// Draw the result alone: no title, no scale bar, no colour scale
    #[arg(long, global = true)]
    pub plain: bool,
    /// Draw the result alone with the colour scale (a bar, or a wheel for vector fields) on the right
    #[arg(long, global = true, conflicts_with = "plain")]
    pub legend: bool,
}

/// What is subtracted from a vector field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CenterArg {
    None,
    Mean,
    Median,
}

impl PictureArgs {
    /// Refuses ends that no scale has.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check(&self) -> Result<()> {
        if let (Some(min), Some(max)) = (self.vmin, self.vmax)
            && min >= max
        {
            return Err(Error::invalid(format!("--vmin {min} is not below --vmax {max}"))
                .with_hint("give the lower end of the colour scale as --vmin"));
        }
        let ends = [("--vmin", self.vmin), ("--vmax", self.vmax)];
        match ends.into_iter().find_map(|(name, end)| Some((name, end.filter(|end| *end <= 0.0)?)))
        {
            Some((name, end)) if self.log => Err(Error::invalid(format!(
                "{name} {end} is not on a logarithmic scale, which has positive values only"
            ))
            .with_hint("give a positive value, or leave --log out")),
            _ => Ok(()),
        }
    }

    /// The way results of `title` are to be drawn.
    pub(crate) fn style(&self, title: &str) -> PictureStyle {
        PictureStyle {
            scale: ScaleOptions {
                percentiles: self.percentile,
                min: self.vmin,
                max: self.vmax,
                log: self.log,
            },
            colours: Colormap::by_name(&self.cmap).unwrap_or_default(),
            colours_name: self.cmap.clone(),
            center: match self.center {
                CenterArg::None => Center::None,
                CenterArg::Mean => Center::Mean,
                CenterArg::Median => Center::Median,
            },
            upscale: self.upscale,
            legend: self.legend,
            labelled: !self.plain && !self.legend,
            title: title.to_owned(),
        }
    }
}

//! What a picture shows: in words, and on which axes.

use crate::compute::transform::reciprocal;
use crate::{
    AxisDescription, ComPart, Description, PatternChannel, PatternQuery, Query, ScanChannel,
    ScanQuery, Transform,
};

/// What a picture shows, in words.
pub(crate) fn title(query: &Query) -> String {
    let (title, transform) = match query {
        Query::Scan(query) => (of_scan(query), query.transform),
        Query::Pattern(query) => (of_pattern(query), query.transform),
    };
    match transform {
        Transform::None => title,
        Transform::Fft => format!("Fourier transform: {title}"),
        Transform::Ewpc => format!("Cepstrum: {title}"),
    }
}

fn of_scan(query: &ScanQuery) -> String {
    let what = match &query.channel {
        ScanChannel::Sum => "Sum",
        ScanChannel::Mean => "Mean",
        ScanChannel::Std => "Standard deviation",
        ScanChannel::Max => "Maximum",
        ScanChannel::Com { part, .. } => match part {
            ComPart::Vector => "Centre of mass",
            ComPart::Magnitude => "Distance of the centre of mass",
            ComPart::Y => "Centre of mass along y",
            ComPart::X => "Centre of mass along x",
            ComPart::Divergence => "Divergence of the centre of mass",
            ComPart::Curl => "Curl of the centre of mass",
        },
        ScanChannel::Idpc { .. } => "Integrated centre of mass",
        ScanChannel::Own { name, buffer } => return format!("{buffer} of {name}"),
    };
    match query.detector.is_empty() {
        true => format!("{what} of all pixels"),
        false => format!("{what} of the pixels of the detector"),
    }
}

fn of_pattern(query: &PatternQuery) -> String {
    let what = match &query.channel {
        PatternChannel::Sum => "Sum",
        PatternChannel::Mean => "Mean",
        PatternChannel::Std => "Standard deviation",
        PatternChannel::Max => "Maximum",
        PatternChannel::Own { name, buffer } => return format!("{buffer} of {name}"),
    };
    match query.region.is_empty() && query.slice.is_empty() {
        true => format!("{what} of all frames"),
        false => format!("{what} of the frames of the region"),
    }
}

/// The axes of a picture.
pub(crate) fn axes(query: &Query, about: &Description) -> Vec<AxisDescription> {
    let (all, transform) = match query {
        Query::Scan(query) => (&about.nav, query.transform),
        Query::Pattern(query) => (&about.sig, query.transform),
    };
    let shown = all.get(all.len().saturating_sub(2)..).unwrap_or_default().iter();
    match transform {
        Transform::None => shown.cloned().collect(),
        _ => shown.map(|axis| reciprocal(axis, axis.size, 1)).collect(),
    }
}

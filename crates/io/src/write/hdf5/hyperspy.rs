//! Groups and attributes as HyperSpy names them, version 3.3 of its format.

use super::node::{Node, Value};
use super::{Job, metadata};
use crate::headers::hyperspy::{CAMERA, DWELL, EELS, MICROSCOPE, SEM, STAGE, TEM};
use framefold_core::{AxisKind, MetadataValue, Quantity, split_names};

/// The name of a signal without a title.
pub(in crate::write) const UNNAMED: &str = "__unnamed__";

/// The name of the signal; HyperSpy's own for those without a title.
pub(in crate::write) fn title(job: &Job<'_>) -> String {
    const LONGEST: usize = 200;
    let title = match job.metadata.get(Quantity::Title) {
        Some(MetadataValue::Text(title)) => title.replace('/', "-"),
        _ => UNNAMED.to_owned(),
    };
    let title: String = title.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if title.trim_matches('.').is_empty() { UNNAMED.to_owned() } else { title }
}

/// The whole file around the array, which Zarr has in a folder of its own; `name` is that of the signal.
pub(in crate::write) fn root(job: &Job<'_>, name: String, data: Option<Node>) -> Node {
    let file_format = if data.is_some() { "HyperSpy" } else { "ZSpy" };
    let (nav, sig) = (&job.selection.nav, job.dataset.shape().sig());
    let text = |quantity| text(job, quantity).unwrap_or_default();
    // HyperSpy lets two axes have the same name.
    let mut names = split_names(text(Quantity::ScanAxes), nav.len());
    names.extend(split_names(text(Quantity::FrameAxes), sig.len()));
    let mut children: Vec<(String, Node)> =
        data.into_iter().map(|data| ("data".to_owned(), data)).collect();
    for (i, (axis, name)) in job.axes().into_iter().zip(names).enumerate() {
        let name = if name.is_empty() { axis.name } else { name.to_owned() };
        let attributes = vec![
            ("_type", Value::Text("UniformDataAxis".into())),
            ("name", Value::Text(name)),
            ("units", Value::Text(axis.unit)),
            ("navigate", Value::Truth(axis.kind == AxisKind::Nav)),
            ("is_binned", Value::Truth(false)),
            ("size", Value::Integer(axis.size as i64)),
            ("scale", Value::Number(axis.scale)),
            ("offset", Value::Number(axis.offset)),
        ];
        children.push((format!("axis-{i}"), Node::attributes(attributes)));
    }
    let signal_type = Value::Text(text(Quantity::SignalType).to_owned());
    let mut about = vec![
        ("General", general(job)),
        ("Signal", Node::attributes(vec![("signal_type", signal_type)])),
    ];
    if let Some(instrument) = instrument(job) {
        about.push(("Acquisition_instrument", instrument));
    }
    let lazy = vec![("_lazy", Value::Truth(false)), ("ragged", Value::Truth(false))];
    children.extend(
        [
            ("attributes", Node::attributes(lazy)),
            ("learning_results", Node::group(vec![])),
            ("metadata", Node::group(about)),
            ("original_metadata", Node::group(vec![("framefold", metadata(job))])),
        ]
        .map(|(name, node)| (name.to_owned(), node)),
    );
    let signal = Node::Group { attributes: vec![], children };
    let experiments = Node::Group { attributes: vec![], children: vec![(name, signal)] };
    Node::Group {
        attributes: vec![
            ("file_format".to_owned(), Value::Text(file_format.into())),
            ("file_format_version".to_owned(), Value::Text("3.3".into())),
        ],
        children: vec![("Experiments".to_owned(), experiments)],
    }
}

/// What is known, if it is a text.
fn text<'j>(job: &'j Job<'_>, quantity: Quantity) -> Option<&'j str> {
    match job.metadata.get(quantity)? {
        MetadataValue::Text(text) => Some(text),
        MetadataValue::Number(_) => None,
    }
}

/// Title, date and comment.
fn general(job: &Job<'_>) -> Node {
    let text = |quantity| text(job, quantity);
    let recorded = text(Quantity::RecordedAt).map(|when| match when.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (when, None),
    });
    let (date, time) = recorded.filter(|(date, _)| is_date(date)).unzip();
    let (time, zone) = time.flatten().map(split_zone).unzip();
    let texts = [
        ("date", date),
        ("time", time),
        ("time_zone", zone.filter(|zone| !zone.is_empty())),
        ("authors", text(Quantity::Operator)),
        ("notes", text(Quantity::Note)),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let all = [("title", text(Quantity::Title).unwrap_or_default())].into_iter().chain(texts);
    Node::attributes(all.map(|(name, text)| (name, Value::Text(text.into()))).collect())
}

/// Whether it is a date as ISO 8601 has it.
fn is_date(text: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let lens = text.split('-').map(str::len);
    lens.eq([4, 2, 2]) && text.split('-').all(digits)
}

/// A time, and its difference from UTC, if there is one: `12:30:00`, `+09:00`.
fn split_zone(time: &str) -> (&str, &str) {
    time.find(['+', '-', 'Z']).and_then(|at| time.split_at_checked(at)).unwrap_or((time, ""))
}

/// What HyperSpy has names for, in its units.
fn instrument(job: &Job<'_>) -> Option<Node> {
    let numbers = |table: &[(&'static str, Quantity, f64)]| -> Vec<(String, Value)> {
        let known = |(name, quantity, factor): &(&str, Quantity, f64)| {
            let number = job.metadata.get_number(*quantity)? / factor;
            Some(((*name).to_owned(), Value::Number(number)))
        };
        table.iter().filter_map(known).collect()
    };
    let (mut attributes, stage) = (numbers(&MICROSCOPE), numbers(&STAGE));
    let mode = text(job, Quantity::AcquisitionMode);
    for (name, text) in
        [("acquisition_mode", mode), ("microscope", text(job, Quantity::Microscope))]
    {
        attributes.extend(text.map(|text| (name.to_owned(), Value::Text(text.into()))));
    }
    let is_eels = text(job, Quantity::SignalType) == Some("EELS");
    let mut eels = numbers(&EELS);
    if !is_eels {
        attributes.extend(numbers(&[DWELL]));
        eels.retain(|(name, _)| name == EELS[0].0);
    }
    // Of other spectra, the exposure would be that of a spectrometer that HyperSpy has no place for.
    let is_image = job.dataset.shape().sig().len() == 2 && !is_eels;
    let camera = if is_image { numbers(&CAMERA) } else { vec![] };
    let group = |attributes: Vec<(String, Value)>| {
        (!attributes.is_empty()).then(|| Node::Group { attributes, children: vec![] })
    };
    let detector = group(eels).map(|eels| Node::group(vec![("EELS", eels)]));
    let groups = [("Camera", group(camera)), ("Detector", detector), ("Stage", group(stage))];
    let children = groups.into_iter().filter_map(|(name, node)| Some((name.to_owned(), node?)));
    let children: Vec<(String, Node)> = children.collect();
    if attributes.is_empty() && children.is_empty() {
        return None;
    }
    let kind = if mode == Some(SEM) { SEM } else { TEM };
    Some(Node::group(vec![(kind, Node::Group { attributes, children })]))
}

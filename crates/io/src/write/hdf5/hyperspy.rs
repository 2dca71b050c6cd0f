//! Groups and attributes as HyperSpy names them, version 3.3 of its format.

use super::node::{Node, Value};
use super::{Job, metadata};
use crate::write::axes::axes;
use framefold_core::{MetadataValue, Quantity};

/// The name of the signal; HyperSpy's own for those without a title.
pub(super) fn title(job: &Job<'_>) -> String {
    const UNNAMED: &str = "__unnamed__";
    const LONGEST: usize = 200;
    let title = match job.metadata.get(Quantity::Title) {
        Some(MetadataValue::Text(title)) => title.replace('/', "-"),
        _ => UNNAMED.to_owned(),
    };
    let title: String = title.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if title.trim_matches('.').is_empty() { UNNAMED.to_owned() } else { title }
}

/// The whole file around the array.
pub(super) fn root(job: &Job<'_>, data: Node) -> Node {
    let axes = axes(&job.selection.nav, job.dataset.shape().sig(), &job.metadata);
    let mut children = vec![("data".to_owned(), data)];
    for (i, axis) in axes.into_iter().enumerate() {
        let attributes = vec![
            ("_type", Value::Text("UniformDataAxis".into())),
            ("name", Value::Text(axis.name)),
            ("units", Value::Text(axis.units.into())),
            ("navigate", Value::Truth(axis.navigates)),
            ("is_binned", Value::Truth(false)),
            ("size", Value::Integer(axis.len as i64)),
            ("scale", Value::Number(axis.scale)),
            ("offset", Value::Number(axis.offset)),
        ];
        children.push((format!("axis-{i}"), Node::attributes(attributes)));
    }
    let name = title(job);
    let text = |quantity| match job.metadata.get(quantity) {
        Some(MetadataValue::Text(text)) => Some(Value::Text(text.clone())),
        _ => None,
    };
    let title = text(Quantity::Title).unwrap_or(Value::Text(String::new()));
    let mut about = vec![
        ("General", Node::attributes(vec![("title", title)])),
        ("Signal", Node::attributes(vec![("signal_type", Value::Text(String::new()))])),
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
            ("file_format".to_owned(), Value::Text("HyperSpy".into())),
            ("file_format_version".to_owned(), Value::Text("3.3".into())),
        ],
        children: vec![("Experiments".to_owned(), experiments)],
    }
}

/// What HyperSpy has names for, in its units.
fn instrument(job: &Job<'_>) -> Option<Node> {
    let number = |quantity| match job.metadata.get(quantity) {
        Some(MetadataValue::Number(number)) => Some(*number),
        _ => None,
    };
    let numbers = [
        ("beam_energy", Quantity::AccelerationVoltage, 1.0),
        ("camera_length", Quantity::CameraLength, 1.0),
        ("magnification", Quantity::Magnification, 1.0),
        ("convergence_angle", Quantity::ConvergenceAngle, 1.0),
        // In nA.
        ("beam_current", Quantity::BeamCurrent, 1e-3),
    ];
    let mut attributes: Vec<(&str, Value)> = numbers
        .into_iter()
        .filter_map(|(name, quantity, factor)| {
            Some((name, Value::Number(number(quantity)? * factor)))
        })
        .collect();
    if let Some(MetadataValue::Text(name)) = job.metadata.get(Quantity::Microscope) {
        attributes.push(("microscope", Value::Text(name.clone())));
    }
    if attributes.is_empty() {
        return None;
    }
    Some(Node::group(vec![("TEM", Node::attributes(attributes))]))
}

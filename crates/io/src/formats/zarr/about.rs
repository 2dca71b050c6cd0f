//! What attributes say about an array: framefold's own, and HyperSpy's.

use super::place::Place;
use crate::headers::hyperspy::{self, Signal};
use crate::headers::written;
use framefold_core::{Calibration, MetadataList, Quantity, Result};
use serde_json::Value;

/// The attributes of an array or a group, in version 2 or 3; null if there are none.
///
/// # Errors
/// Those of [`Place::json`]: attributes may say which axes are those of a frame.
pub(super) fn attributes(of: &Place) -> Result<Value> {
    if let Some(description) = of.json("zarr.json")? {
        return Ok(description.get("attributes").cloned().unwrap_or_default());
    }
    Ok(of.json(".zattrs")?.unwrap_or_default())
}

/// The axes that HyperSpy does not navigate.
pub(super) fn signal_axes(array: &Place) -> Option<Vec<usize>> {
    let signal = signal(array)?;
    let navigates = |axis: &usize| signal.truth(&format!("axis-{axis}"), "navigate");
    let n_axes = (0..).take_while(|axis| signal.has(&format!("axis-{axis}"))).count();
    let axes: Vec<usize> = (0..n_axes).filter(|axis| navigates(axis) == Some(false)).collect();
    (!axes.is_empty()).then_some(axes)
}

/// A sentence about axes that HyperSpy gives no step.
pub(super) fn uneven(array: &Place, n_axes: usize) -> Option<String> {
    hyperspy::uneven(&signal(array)?, n_axes)
}

/// What is known of the experiment; and what has a unit that is not known, in the words of the file. `nav`
/// and `sig` are the axes of the scan and of frames, of which the file says that they are `n_sig`.
pub(super) fn read(
    array: &Place,
    attributes: &Value,
    nav: &[usize],
    sig: &[usize],
    n_sig: usize,
) -> (MetadataList, Vec<(String, String)>) {
    let mut list = MetadataList::new();
    let others = signal(array).map(|signal| {
        let others = hyperspy::add(&signal, nav, sig, &mut list);
        if let Some(written) = signal.written() {
            hyperspy::settle(written, sig.len(), n_sig, &mut list);
        }
        others
    });
    for &quantity in Quantity::ALL {
        let fact = attributes[written::METADATA].get(quantity.name()).unwrap_or(&Value::Null);
        if fact["unit"].as_str().unwrap_or_default() == quantity.unit() {
            list.text(quantity, fact["value"].as_str());
            list.number(quantity, fact["value"].as_f64());
        }
    }
    if attributes.get(written::METADATA).is_some() {
        let axis = |axis: &usize| {
            let axis = attributes[written::AXES].get(axis)?;
            Some(Calibration {
                step: axis[written::SCALE].as_f64()?,
                offset: axis[written::OFFSET].as_f64()?,
                unit: axis[written::UNITS].as_str()?.to_owned(),
            })
        };
        let of = |axes: &[usize]| axes.iter().map(axis).collect::<Vec<_>>();
        written::add_axes(&mut list, &of(nav), &of(sig), n_sig);
    }
    (list, others.unwrap_or_default())
}

/// The group of HyperSpy's signal that an array belongs to.
fn signal(array: &Place) -> Option<InFolder> {
    let signal = array.is_called("data").then(|| array.parent()).flatten().map(InFolder)?;
    signal.has("axis-0").then_some(signal)
}

/// The groups of a signal.
struct InFolder(Place);

impl InFolder {
    /// What framefold wrote: an attribute for each quantity, and one for its unit.
    fn written(&self) -> Option<MetadataList> {
        let all = attributes(&self.0.join("original_metadata/framefold")).ok()?;
        let mut list = MetadataList::new();
        for &quantity in Quantity::ALL {
            let name = quantity.name();
            let unit = all.get(format!("{name}{}", written::UNIT)).and_then(Value::as_str);
            if let Some(value) = all.get(name)
                && unit.unwrap_or_default() == quantity.unit()
            {
                list.text(quantity, value.as_str());
                list.number(quantity, value.as_f64());
            }
        }
        all.is_object().then_some(list)
    }

    fn attribute(&self, group: &str, name: &str) -> Value {
        let all = attributes(&self.0.join(group)).unwrap_or_default();
        all.get(name).cloned().unwrap_or_default()
    }
}

impl Signal for InFolder {
    fn has(&self, group: &str) -> bool {
        attributes(&self.0.join(group)).is_ok_and(|all| all.is_object())
    }

    fn number(&self, group: &str, name: &str) -> Option<f64> {
        self.attribute(group, name).as_f64()
    }

    fn text(&self, group: &str, name: &str) -> Option<String> {
        self.attribute(group, name).as_str().map(str::to_owned)
    }

    fn truth(&self, group: &str, name: &str) -> Option<bool> {
        self.attribute(group, name).as_bool()
    }
}

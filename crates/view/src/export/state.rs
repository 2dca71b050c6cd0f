//! How pictures were shown, of what clients keep of it.

use framefold::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

/// Of both panes; what else is in it is the client's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) scan: Pane,
    pub(super) pattern: Pane,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Pane {
    pub(super) display: Display,
}

/// Colours of one picture.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Display {
    pub(super) colormap: String,
    pub(super) scale: Scale,
    /// The exponent, with [`Scale::Power`].
    pub(super) gamma: f64,
    /// The value that gets the first colour; that of the smallest if it is not known.
    pub(super) low: Option<f64>,
    /// The value that gets the last colour.
    pub(super) high: Option<f64>,
}

impl Default for Display {
    fn default() -> Self {
        let colormap = "viridis".to_owned();
        Display { colormap, scale: Scale::Linear, gamma: 1.0, low: None, high: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scale {
    Linear,
    Log,
    Sqrt,
    Power,
}

impl State {
    /// Of what a client sent; of null, what pictures look like at first.
    ///
    /// # Errors
    /// `InvalidArgument` if it is something else.
    pub(super) fn of(value: &Value) -> Result<Self> {
        if value.is_null() {
            return Ok(State::default());
        }
        serde_json::from_value(value.clone())
            .map_err(|error| Error::invalid(format!("the state is not one of the viewer: {error}")))
    }
}

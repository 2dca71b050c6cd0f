//! JSON that some programs put into attributes and data sets.

use crate::headers::json;
use serde_json::Value;

/// A value whose parts are named by paths such as `/a/b/0`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Json(Value);

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Json(value)
    }
}

impl Json {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        json::parse(text).ok().map(Json)
    }

    /// The part of that path, if it is an object.
    pub(super) fn object(&self, path: &str) -> Option<Json> {
        self.0.pointer(path).filter(|part| part.is_object()).cloned().map(Json)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.0.pointer(path)?.as_str()
    }

    /// A number, or the number that a text is.
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.0.pointer(path)? {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        }
    }

    /// The first of these paths at which there is a number.
    pub(super) fn first_number(&self, paths: &[&str]) -> Option<f64> {
        paths.iter().find_map(|path| self.number(path))
    }
}

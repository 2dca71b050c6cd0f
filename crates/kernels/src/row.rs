//! What a reduction says about itself, and all that others know of it.

use crate::parameters::{Parameters, Value};
use framefold_core::{DType, Error, Result, StoredDType, Udf};
use std::sync::Arc;

/// One native reduction: its row in the table [`REDUCTIONS`](crate::REDUCTIONS).
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The name of its UDF, and of the reduction wherever it is asked for.
    pub name: &'static str,
    /// Another name on the command line.
    pub alias: Option<&'static str>,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The names of its result buffers, in the order of its results.
    pub buffers: &'static [&'static str],
    /// The buffer that is shown where there is room for one only.
    pub main_buffer: &'static str,
    /// What the extra axes of its buffers mean.
    pub look: Look,
    /// What the values of its buffers are measured in.
    pub unit: Option<&'static str>,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    /// Parameters to try it with, as text; none if it can do without.
    pub example: &'static [(&'static str, &'static str)],
    make: Make,
}

/// Makes the UDF from checked parameters and the shape of a frame.
pub(crate) type Make = fn(&mut Parameters, &[usize]) -> Result<Arc<dyn Udf>>;

/// What the extra axes of a buffer mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Numbers; extra axes count channels, such as masks.
    Values,
    /// The last axis holds the y and x components of vectors.
    Vectors,
    /// Frames: extra axes are those of a frame.
    Frames,
}

/// One parameter of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in Rust and Python.
    pub name: &'static str,
    /// Its name on the command line, without dashes; `None` if it is not to be had there.
    pub option: Option<&'static str>,
    /// What it can be.
    pub kind: ParameterKind,
    /// What it is measured in.
    pub unit: Option<&'static str>,
    /// What it is if it is not given.
    pub default: DefaultValue,
    /// What it means, in one line.
    pub help: &'static str,
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// The name of a dtype.
    DType,
    /// A finite number.
    Number,
    /// A number from 0 to infinity.
    Radius,
    /// Yes or no.
    Switch,
    /// Disks: radius, or centre and radius, any number of them.
    Disks,
    /// Rings: two radii, or centre and two radii, any number of them.
    Rings,
    /// Arrays of masks, any number of them; files on the command line.
    Arrays,
    /// An array of numbers; a file on the command line.
    Array,
    /// Whole numbers from 0 on.
    Counts,
}

/// What a parameter is if it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// This, written as on the command line.
    Is(&'static str),
    /// What the reduction finds by itself, in words.
    Found(&'static str),
    /// Nothing: the reduction does without.
    Nothing,
    /// Of all parameters that say so, one has to be given.
    OneOfThese,
}

/// A round virtual detector, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    /// Row and column of the centre; the middle of the frame if not given.
    pub centre: Option<(f64, f64)>,
    /// Inner radius, for a ring.
    pub inner: Option<f64>,
    /// Outer radius.
    pub outer: f64,
}

impl Reduction {
    /// A reduction without parameters that gives values; the first buffer is the main one.
    pub(crate) const fn new(
        name: &'static str,
        summary: &'static str,
        buffers: &'static [&'static str],
        make: Make,
    ) -> Self {
        Reduction {
            name,
            alias: None,
            summary,
            buffers,
            main_buffer: buffers[0],
            look: Look::Values,
            unit: None,
            parameters: &[],
            example: &[],
            make,
        }
    }

    pub(crate) const fn with_alias(self, alias: &'static str) -> Self {
        Reduction { alias: Some(alias), ..self }
    }

    pub(crate) const fn with_main_buffer(self, main_buffer: &'static str) -> Self {
        Reduction { main_buffer, ..self }
    }

    pub(crate) const fn with_look(self, look: Look) -> Self {
        Reduction { look, ..self }
    }

    pub(crate) const fn with_unit(self, unit: &'static str) -> Self {
        Reduction { unit: Some(unit), ..self }
    }

    pub(crate) const fn with_parameters(self, parameters: &'static [Parameter]) -> Self {
        Reduction { parameters, ..self }
    }

    pub(crate) const fn with_example(
        self,
        example: &'static [(&'static str, &'static str)],
    ) -> Self {
        Reduction { example, ..self }
    }

    /// The parameter of this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn parameter(&self, name: &str) -> Result<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
            Error::invalid(format!("'{}' has no parameter '{name}'", self.name)).with_hint(
                match names.is_empty() {
                    true => "it has none at all".to_owned(),
                    false => format!("its parameters are {}", names.join(", ")),
                },
            )
        })
    }

    /// The UDF with `parameters`, for frames of shape `sig_shape`.
    ///
    /// # Errors
    /// `InvalidArgument` if a parameter is missing, or does not fit the others or the frames.
    pub fn build(&self, mut parameters: Parameters, sig_shape: &[usize]) -> Result<Arc<dyn Udf>> {
        let one_of = || self.parameters.iter().filter(|p| p.default == DefaultValue::OneOfThese);
        if one_of().next().is_some() && !one_of().any(|p| parameters.is_given(p.name)) {
            let names: Vec<String> = one_of().map(|p| format!("'{}'", p.name)).collect();
            return Err(Error::invalid(format!("'{}' needs one of its parameters", self.name))
                .with_hint(format!("give {}", names.join(" or "))));
        }
        (self.make)(&mut parameters, sig_shape)
    }
}

impl Parameter {
    pub(crate) const fn new(
        name: &'static str,
        kind: ParameterKind,
        default: DefaultValue,
        help: &'static str,
    ) -> Self {
        Parameter { name, option: Some(name), kind, unit: None, default, help }
    }

    /// Under another name on the command line.
    pub(crate) const fn with_option(self, option: &'static str) -> Self {
        Parameter { option: Some(option), ..self }
    }

    /// Not on the command line.
    pub(crate) const fn without_option(self) -> Self {
        Parameter { option: None, ..self }
    }

    pub(crate) const fn with_unit(self, unit: &'static str) -> Self {
        Parameter { unit: Some(unit), ..self }
    }
}

impl ParameterKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ParameterKind::DType => "dtype",
            ParameterKind::Number => "number",
            ParameterKind::Radius => "radius",
            ParameterKind::Switch => "switch",
            ParameterKind::Disks => "disks",
            ParameterKind::Rings => "rings",
            ParameterKind::Arrays => "arrays",
            ParameterKind::Array => "array",
            ParameterKind::Counts => "counts",
        }
    }

    /// Whether it can be given several times, each time one more.
    pub fn is_list(self) -> bool {
        matches!(self, ParameterKind::Disks | ParameterKind::Rings | ParameterKind::Arrays)
    }

    /// What is expected, in words.
    pub fn expected(self) -> &'static str {
        match self {
            ParameterKind::DType => "the name of a dtype, such as float32",
            ParameterKind::Number => "a finite number",
            ParameterKind::Radius => "a radius in pixels, 0 or more",
            ParameterKind::Switch => "true or false",
            ParameterKind::Disks => "R or CY,CX,R in pixels, for example 20 or 63.5,64,20",
            ParameterKind::Rings => "RI,RO or CY,CX,RI,RO in pixels with RI smaller than RO",
            ParameterKind::Arrays => "an array of masks",
            ParameterKind::Array => "an array of numbers",
            ParameterKind::Counts => "whole numbers, 0 or more",
        }
    }

    /// The value that `text` stands for, as people write it on the command line.
    ///
    /// # Errors
    /// What is expected instead, in words. Arrays cannot be written.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let value = match self {
            ParameterKind::DType => return dtype(text).map(Value::DType),
            ParameterKind::Number | ParameterKind::Radius => number(text).map(Value::Number),
            ParameterKind::Switch => text.trim().parse().ok().map(Value::Switch),
            ParameterKind::Disks | ParameterKind::Rings => {
                match text.split(',').map(|part| number(part).filter(|n| n.is_finite())).collect() {
                    Some(numbers) => self.detector(numbers).map(|one| Value::Detectors(vec![one])),
                    // One of them is the reason.
                    None => return Err(format!("expected {}", ParameterKind::Number.expected())),
                }
            }
            ParameterKind::Counts => text
                .split(',')
                .map(|part| part.trim().parse().ok())
                .collect::<Option<_>>()
                .map(Value::Counts),
            ParameterKind::Arrays | ParameterKind::Array => None,
        };
        value
            .filter(|value| value.is_a(self))
            .ok_or_else(|| format!("expected {}", self.expected()))
    }

    /// The disk or ring that these numbers describe.
    pub fn detector(self, numbers: Vec<f64>) -> Option<Detector> {
        let (inner, outer) = match (self, &*numbers) {
            (ParameterKind::Disks, [.., outer]) => (None, *outer),
            (ParameterKind::Rings, [.., inner, outer]) => (Some(*inner), *outer),
            _ => return None,
        };
        let n_radii = 1 + usize::from(inner.is_some());
        let centre = match numbers[..numbers.len() - n_radii] {
            [] => None,
            [cy, cx] => Some((cy, cx)),
            _ => return None,
        };
        Some(Detector { centre, inner, outer })
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn dtype(text: &str) -> Result<DType, String> {
    StoredDType::parse(text).map(|stored| stored.dtype).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values() {
        let parse = ParameterKind::parse;
        assert_eq!(parse(ParameterKind::DType, "float64"), Ok(Value::DType(DType::F64)));
        assert!(parse(ParameterKind::DType, "uint17").unwrap_err().contains("'uint17'"));
        assert_eq!(parse(ParameterKind::Number, " -3.5 "), Ok(Value::Number(-3.5)));
        assert_eq!(parse(ParameterKind::Radius, "inf"), Ok(Value::Number(f64::INFINITY)));
        assert_eq!(parse(ParameterKind::Switch, "true"), Ok(Value::Switch(true)));
        assert_eq!(parse(ParameterKind::Counts, "3,0"), Ok(Value::Counts(vec![3, 0])));
        for (kind, texts) in [
            (ParameterKind::Number, &["", "east", "inf", "nan"][..]),
            (ParameterKind::Radius, &["-1", "nan", "1,2"]),
            (ParameterKind::Switch, &["", "1", "maybe"]),
            (ParameterKind::Counts, &["-1", "1.5", "1,,2"]),
            (ParameterKind::Disks, &["", "1,2", "-1", "a", "inf"]),
            (ParameterKind::Rings, &["5", "20,5", "5,5", "1,2,3", "-1,5"]),
            (ParameterKind::Arrays, &["a.npy"]),
        ] {
            for text in texts {
                assert!(parse(kind, text).is_err(), "{} {text}", kind.name());
            }
        }
    }

    #[test]
    fn detectors_with_and_without_centre() {
        let one = |kind: ParameterKind, text| match kind.parse(text) {
            Ok(Value::Detectors(detectors)) => detectors[0],
            other => panic!("{other:?}"),
        };
        let disk = Detector { centre: None, inner: None, outer: 20.0 };
        assert_eq!(one(ParameterKind::Disks, "20"), disk);
        let moved = Detector { centre: Some((1.0, 2.0)), ..disk };
        assert_eq!(one(ParameterKind::Disks, "1,2,20"), moved);
        let ring = Detector { inner: Some(5.0), ..disk };
        assert_eq!(one(ParameterKind::Rings, "5,20"), ring);
        let moved = Detector { inner: Some(5.0), ..moved };
        assert_eq!(one(ParameterKind::Rings, "1,2,5,20"), moved);
    }
}

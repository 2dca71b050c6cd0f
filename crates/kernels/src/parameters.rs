//! Values for the parameters of a reduction, each checked when it is given.

use crate::row::{DefaultValue, Detector, Parameter, ParameterKind, Reduction};
use crate::shifts::Shifts;
use framefold_core::{DType, Error, NativeArray, Result};
use std::fmt;
use std::path::PathBuf;

/// What a parameter is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A dtype.
    DType(DType),
    /// A number.
    Number(f64),
    /// Yes or no.
    Switch(bool),
    /// Round virtual detectors.
    Detectors(Vec<Detector>),
    /// Arrays of masks.
    Arrays(Vec<GivenArray>),
    /// Whole numbers.
    Counts(Vec<usize>),
}

/// An array, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenArray {
    /// The array.
    pub array: NativeArray,
    /// The file that it was read from.
    pub path: Option<PathBuf>,
}

/// The parameters of one reduction.
#[derive(Clone, Debug)]
pub struct Parameters {
    row: &'static Reduction,
    pub(crate) given: Vec<(&'static str, Value)>,
}

impl Parameters {
    /// None given: all of them have their defaults.
    pub fn new(row: &'static Reduction) -> Self {
        Parameters { row, given: Vec::new() }
    }

    /// The reduction.
    pub fn reduction(&self) -> &'static Reduction {
        self.row
    }

    /// Gives a parameter; lists become longer each time.
    ///
    /// # Errors
    /// `InvalidArgument` if the reduction has no such parameter, the value is not one that it can
    /// have, or it has one already.
    pub fn set(&mut self, name: &str, value: Value) -> Result<()> {
        let parameter = self.row.parameter(name)?;
        if !value.is_a(parameter.kind) {
            return Err(self.row.refuses(parameter, &value));
        }
        let present = self.given.iter_mut().find(|(given, _)| *given == parameter.name);
        match (present, value) {
            (None, value) => self.given.push((parameter.name, value)),
            (Some((_, Value::Detectors(all))), Value::Detectors(more)) => all.extend(more),
            (Some((_, Value::Arrays(all))), Value::Arrays(more)) if parameter.kind.is_list() => {
                all.extend(more);
            }
            (Some(_), _) => {
                return Err(Error::invalid(format!(
                    "parameter '{name}' of '{}' is given twice",
                    self.row.name
                )));
            }
        }
        Ok(())
    }

    /// Whether a parameter was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// A dtype, given or by default.
    ///
    /// # Errors
    /// As of all of these: `Bug` if the row has no such parameter, or one of another kind.
    pub(crate) fn dtype(&mut self, name: &str) -> Result<Option<DType>> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::DType(dtype)) => Ok(Some(dtype)),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// A number, given or by default.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<f64>> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// A switch; off if it is not given.
    pub(crate) fn switch(&mut self, name: &str) -> Result<bool> {
        match self.take(name)? {
            None => Ok(false),
            Some(Value::Switch(on)) => Ok(on),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// Detectors; none if they are not given.
    pub(crate) fn detectors(&mut self, name: &str) -> Result<Vec<Detector>> {
        match self.take(name)? {
            None => Ok(Vec::new()),
            Some(Value::Detectors(detectors)) => Ok(detectors),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// Arrays; none if they are not given.
    pub(crate) fn arrays(&mut self, name: &str) -> Result<Vec<GivenArray>> {
        match self.take(name)? {
            None => Ok(Vec::new()),
            Some(Value::Arrays(arrays)) => Ok(arrays),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// The array `shifts`, if it is given.
    ///
    /// # Errors
    /// As [`Shifts::try_new`].
    pub(crate) fn shifts(&mut self) -> Result<Option<Shifts>> {
        let given = self.arrays("shifts")?.pop();
        let Some(GivenArray { array, path }) = given else { return Ok(None) };
        Shifts::try_new(array).map(Some).map_err(|error| match path {
            Some(path) => error.with_path(path),
            None => error,
        })
    }

    /// Whole numbers.
    pub(crate) fn counts(&mut self, name: &str) -> Result<Option<Vec<usize>>> {
        match self.take(name)? {
            None => Ok(None),
            Some(Value::Counts(counts)) => Ok(Some(counts)),
            Some(other) => Err(self.mistaken(name, &other)),
        }
    }

    /// A value, moved out: masks are large.
    fn take(&mut self, name: &str) -> Result<Option<Value>> {
        let parameter = self.row.parameter(name).map_err(|e| Error::bug(e.to_string()))?;
        if let Some(index) = self.given.iter().position(|(given, _)| *given == name) {
            return Ok(Some(self.given.swap_remove(index).1));
        }
        match parameter.default {
            DefaultValue::Is(text) => parameter.kind.parse(text).map(Some).map_err(Error::bug),
            DefaultValue::Found(_) | DefaultValue::Nothing | DefaultValue::OneOfThese => Ok(None),
        }
    }

    fn mistaken(&self, name: &str, value: &Value) -> Error {
        Error::bug(format!("parameter '{name}' of '{}' is not read as {value}", self.row.name))
    }
}

impl Reduction {
    /// The error that names the parameter, what was found, and what it can be.
    pub fn refuses(&self, parameter: &Parameter, found: &dyn fmt::Display) -> Error {
        Error::invalid(format!(
            "parameter '{}' of '{}' is {found}; expected {}",
            parameter.name,
            self.name,
            parameter.kind.expected()
        ))
    }
}

impl Value {
    /// Whether a parameter of that kind can be this.
    pub fn is_a(&self, kind: ParameterKind) -> bool {
        match (kind, self) {
            (ParameterKind::DType, Value::DType(_)) | (ParameterKind::Switch, Value::Switch(_)) => {
                true
            }
            (ParameterKind::Number, Value::Number(number)) => number.is_finite(),
            (ParameterKind::Radius, Value::Number(number)) => *number >= 0.0,
            (ParameterKind::Disks, Value::Detectors(all)) => {
                all.iter().all(|one| one.inner.is_none() && one.outer >= 0.0)
            }
            (ParameterKind::Rings, Value::Detectors(all)) => {
                all.iter().all(|one| one.inner.is_some_and(|ri| 0.0 <= ri && ri < one.outer))
            }
            (ParameterKind::Array, Value::Arrays(all)) => all.len() == 1,
            (ParameterKind::Arrays, Value::Arrays(_))
            | (ParameterKind::Counts, Value::Counts(_)) => true,
            (
                ParameterKind::DType
                | ParameterKind::Number
                | ParameterKind::Radius
                | ParameterKind::Switch
                | ParameterKind::Disks
                | ParameterKind::Rings
                | ParameterKind::Arrays
                | ParameterKind::Array
                | ParameterKind::Counts,
                _,
            ) => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::DType(dtype) => write!(f, "{dtype}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::Detectors(all) => {
                let numbers = all.iter().map(|one| {
                    let centre = one.centre.map(|(cy, cx)| [cy, cx]);
                    let numbers = centre.into_iter().flatten().chain(one.inner).chain([one.outer]);
                    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
                });
                f.write_str(&numbers.collect::<Vec<_>>().join(" "))
            }
            Value::Arrays(all) => {
                let shapes: Vec<_> = all.iter().map(|one| one.array.shape()).collect();
                write!(f, "arrays of shapes {shapes:?}")
            }
            Value::Counts(counts) => write!(f, "{counts:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::DefaultValue::{Is, Nothing};

    /// Of no reduction, or all of these would be compiled for the tests of this crate.
    static ROW: Reduction =
        Reduction::new("detector", "", &["cells"], |_, _| Err(Error::bug("it is not to be made")))
            .with_parameters(&[
                Parameter::new("cy", ParameterKind::Number, Nothing, ""),
                Parameter::new("cx", ParameterKind::Number, Nothing, ""),
                Parameter::new("r", ParameterKind::Radius, Is("inf"), ""),
                Parameter::new("disk", ParameterKind::Disks, Nothing, ""),
                Parameter::new("ring", ParameterKind::Rings, Nothing, ""),
            ]);

    #[test]
    fn each_value_is_checked_against_its_row() {
        let mut detector = Parameters::new(&ROW);
        detector.set("cy", Value::Number(3.0)).unwrap();
        for (name, value, words) in [
            (
                "cx",
                Value::Switch(true),
                "parameter 'cx' of 'detector' is true; expected a finite number",
            ),
            ("cx", Value::Number(f64::NAN), "is NaN; expected a finite number"),
            ("r", Value::Number(-1.0), "is -1; expected a radius in pixels, 0 or more"),
            ("cy", Value::Number(1.0), "given twice"),
            ("masks", Value::Number(1.0), "'detector' has no parameter 'masks'"),
        ] {
            let error = detector.set(name, value).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(detector.number("cy").unwrap(), Some(3.0));
        assert_eq!(detector.number("cx").unwrap(), None);
        assert_eq!(detector.number("r").unwrap(), Some(f64::INFINITY));
        assert!(detector.dtype("r").is_err() && detector.number("masks").is_err());
    }

    #[test]
    fn lists_become_longer() {
        let mut detectors = Parameters::new(&ROW);
        let disk = |outer| Value::Detectors(vec![Detector { centre: None, inner: None, outer }]);
        detectors.set("disk", disk(1.0)).unwrap();
        detectors.set("disk", disk(2.0)).unwrap();
        let error = detectors.set("ring", disk(3.0)).unwrap_err().to_string();
        assert!(error.contains("'ring'") && error.contains("is 3; expected RI,RO"), "{error}");
        assert!(detectors.is_given("disk") && !detectors.is_given("ring"));
        assert_eq!(detectors.detectors("disk").unwrap().len(), 2);
    }
}

//! The text of a stage: its name, its value, and options as `name=value`.

use crate::row::StageRow;
use framefold_core::{DType, Error, Result, StoredDType};
use std::fmt::Display;
use std::ops::Range;

/// What was written behind the name of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Arguments<'t> {
    row: &'static StageRow,
    text: &'t str,
    value: &'t str,
    options: Vec<(&'t str, &'t str)>,
}

impl<'t> Arguments<'t> {
    /// Those of the stage `row`, written as `text` with its name.
    ///
    /// # Errors
    /// `InvalidArgument` if the value is missing or given twice, or an option is unknown or given twice.
    pub(crate) fn parse(row: &'static StageRow, text: &'t str) -> Result<Self> {
        let mut arguments = Arguments { row, text, value: "", options: Vec::new() };
        for word in text.split_whitespace().skip(1) {
            match word.split_once('=') {
                Some((name, value)) => {
                    if row.options.iter().all(|option| option.name != name) {
                        return Err(arguments.refuse(format_args!("there is no '{name}'")));
                    }
                    if arguments.option(name).is_some() {
                        return Err(arguments.refuse(format_args!("'{name}' is given twice")));
                    }
                    arguments.options.push((name, value));
                }
                None if arguments.value.is_empty() => arguments.value = word,
                None => return Err(arguments.refuse("it has one value")),
            }
        }
        if arguments.value.is_empty() {
            return Err(arguments.refuse("its value is missing"));
        }
        Ok(arguments)
    }

    /// The error that says what is wrong, and what was expected.
    pub(crate) fn refuse(&self, why: impl Display) -> Error {
        let options = self.row.options.iter().map(|option| format!(" [{}=…]", option.name));
        let options: String = options.collect();
        Error::invalid(format!("the stage '{}': {why}", self.text)).with_hint(format!(
            "write '{} {}{options}', for instance '{} {}'",
            self.row.name, self.row.value, self.row.name, self.row.example
        ))
    }

    /// A length for each of `n_axes` axes of `what`, frames or a scan; one stands for all.
    pub(crate) fn lengths(&self, what: &str, n_axes: usize) -> Result<Vec<usize>> {
        let lengths = self.value.split(',').map(|part| part.parse().ok().filter(|&n| n > 0));
        let lengths = lengths.collect::<Option<Vec<usize>>>();
        let lengths = lengths.ok_or_else(|| self.refuse("expected whole numbers from 1 on"))?;
        self.for_axes(lengths, what, n_axes)
    }

    /// A finite number for each of `n_axes` axes of frames; one stands for all.
    pub(crate) fn numbers(&self, n_axes: usize) -> Result<Vec<f64>> {
        let numbers = self.value.split(',').map(|part| self.finite(part));
        self.for_axes(numbers.collect::<Result<Vec<f64>>>()?, "frames", n_axes)
    }

    /// Two whole numbers from 0 on for each axis, with a colon between; one stands for both.
    pub(crate) fn pairs(&self, n_axes: usize) -> Result<Vec<(usize, usize)>> {
        let pair = |part: &str| match part.split_once(':') {
            Some((before, after)) => Some((before.parse().ok()?, after.parse().ok()?)),
            None => part.parse().ok().map(|both| (both, both)),
        };
        let pairs = self.value.split(',').map(pair).collect::<Option<Vec<_>>>();
        let pairs = pairs.ok_or_else(|| self.refuse("expected whole numbers from 0 on"))?;
        self.for_axes(pairs, "frames", n_axes)
    }

    /// A range of pixels for each axis of frames of this shape, as Python has slices of step 1.
    pub(crate) fn ranges(&self, shape: &[usize]) -> Result<Vec<Range<usize>>> {
        let parts: Vec<&str> = self.value.split(',').collect();
        if parts.len() != shape.len() {
            return Err(
                self.refuse(format_args!("{} ranges for frames of shape {shape:?}", parts.len()))
            );
        }
        parts.into_iter().zip(shape).map(|(part, &len)| self.range(part, len)).collect()
    }

    fn range(&self, part: &str, len: usize) -> Result<Range<usize>> {
        let bound = |text: &str, default: usize| match text {
            "" => Some(default),
            _ => match text.strip_prefix('-') {
                Some(from_end) => Some(len.saturating_sub(from_end.parse().ok()?)),
                None => text.parse::<usize>().ok(),
            },
        };
        let bounds = part
            .split_once(':')
            .and_then(|(start, stop)| Some((bound(start, 0)?, bound(stop, len)?)));
        let Some((start, stop)) = bounds else {
            return Err(self.refuse(format_args!("'{part}' is no range")));
        };
        if stop > len || start >= stop {
            return Err(self.refuse(format_args!(
                "the range {start}:{stop} is empty or reaches beyond the {len} pixels of its axis"
            )));
        }
        Ok(start..stop)
    }

    /// A finite number.
    pub(crate) fn number(&self) -> Result<f64> {
        self.finite(self.value)
    }

    /// A finite number, if that option is given.
    pub(crate) fn number_of(&self, name: &str) -> Result<Option<f64>> {
        self.option(name).map(|text| self.finite(text)).transpose()
    }

    /// Whether that switch is on.
    pub(crate) fn switch(&self, name: &str) -> Result<bool> {
        match self.option(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(self.refuse(format_args!("{name}={other}, expected true or false"))),
        }
    }

    /// A dtype.
    pub(crate) fn dtype(&self) -> Result<DType> {
        StoredDType::parse(self.value).map(|stored| stored.dtype).map_err(|e| self.refuse(e))
    }

    fn finite(&self, text: &str) -> Result<f64> {
        let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
        let number =
            number.ok_or_else(|| self.refuse(format_args!("'{text}' is no finite number")))?;
        // What a stage writes of a number, as 1e23, stands for that number.
        let is_another = text.parse::<i128>().is_ok_and(|whole| number as i128 != whole);
        if is_another && number.to_string() != text {
            return Err(self.refuse(format_args!(
                "stages compute in double precision, which does not hold {text}; the number next \
                 to it is {number}"
            )));
        }
        Ok(number)
    }

    fn option(&self, name: &str) -> Option<&'t str> {
        self.options.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    fn for_axes<T: Clone>(&self, values: Vec<T>, what: &str, n_axes: usize) -> Result<Vec<T>> {
        match values.as_slice() {
            [one] => Ok(vec![one.clone(); n_axes]),
            all if all.len() == n_axes => Ok(values),
            all => {
                Err(self.refuse(format_args!("{} values for {what} of {n_axes} axes", all.len())))
            }
        }
    }
}

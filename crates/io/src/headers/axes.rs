//! Which axes of an array are those of a frame.

use crate::options::{OpenOptions, SIG_DIMS};
use framefold_core::{Error, Result};

/// The axes of a frame.
///
/// # Errors
/// `InvalidArgument` if the options do not fit the array, or each other.
pub(crate) fn sig_axes(
    shape: &[usize],
    suggested: Option<&[usize]>,
    options: &OpenOptions,
) -> Result<Vec<usize>> {
    let given = options.sig_shape.as_ref().map(Vec::len);
    if let (Some(of_shape), Some(asked)) = (given, options.count(&SIG_DIMS))
        && of_shape != asked
    {
        return Err(Error::invalid(format!(
            "sig_shape has {of_shape} axes, but sig_dims is {asked}"
        ))
        .with_hint("leave sig_dims out"));
    }
    let asked = options.count(&SIG_DIMS).or(given);
    let fits = |axes: &&[usize]| {
        asked.is_none_or(|n| n == axes.len()) && axes.iter().all(|&axis| axis < shape.len())
    };
    if let Some(suggested) = suggested.filter(fits) {
        return Ok(suggested.to_vec());
    }
    let n_sig = asked.unwrap_or(2);
    if n_sig == 0 || n_sig > shape.len() {
        let error = Error::invalid(format!(
            "the array has {} axes ({shape:?}), of which {n_sig} cannot be signal axes",
            shape.len()
        ));
        return Err(match shape.len() {
            1 => error.with_hint("use sig_dims=1"),
            n => error.with_hint(format!("set sig_dims to a number from 1 to {n}")),
        });
    }
    Ok((shape.len() - n_sig..shape.len()).collect())
}

/// Frames keep the shape that the array has.
///
/// # Errors
/// `InvalidArgument` if another one is asked for.
pub(crate) fn check_sig_shape(
    options: &OpenOptions,
    shape: &[usize],
    sig_shape: &[usize],
) -> Result<()> {
    match options.sig_shape.as_deref().filter(|asked| *asked != sig_shape) {
        None => Ok(()),
        Some(asked) => Err(Error::invalid(format!(
            "sig_shape is {asked:?}, but the frames of the array of shape {shape:?} have the shape \
             {sig_shape:?}"
        ))
        .with_hint("leave sig_shape out, or set sig_dims")),
    }
}

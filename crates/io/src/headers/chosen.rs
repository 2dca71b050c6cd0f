//! What is said of the arrays of a file besides the one that was chosen by its size.

use std::fmt::Debug;

/// The name of an array and its shape.
pub(crate) type Named<'a, N> = (&'a str, &'a [N]);

/// Lists names and shapes, up to `most` of them.
pub(crate) fn names<N: Debug>(arrays: &[Named<'_, N>], most: usize) -> String {
    let named = arrays.iter().take(most).map(|(name, shape)| format!("'{name}' {shape:?}"));
    let more = arrays.len().checked_sub(most).filter(|more| *more > 0);
    let names: Vec<_> = named.chain(more.map(|more| format!("{more} more"))).collect();
    names.join(", ")
}

/// That the size did not decide, where others are as large as the one that was chosen; `kind` is what the
/// format calls them.
pub(crate) fn undecided<N: Debug>(
    kind: &str,
    (name, shape): Named<'_, N>,
    as_large: &[Named<'_, N>],
) -> Option<String> {
    let more = match as_large.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let (other, other_shape) = as_large.first()?;
    Some(format!(
        "the frames are those of '{name}' {shape:?}, but '{other}' {other_shape:?}{more} is as large: name \
         the {kind} by ds_path"
    ))
}
